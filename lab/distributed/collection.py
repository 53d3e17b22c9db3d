"""Collecting operator times into a corpus: which operators, in which order, and the CSV file that grows with them."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from epochcast.analyzer.backends.distributed.models.building import build, example_inputs, keep_distinct
from epochcast.analyzer.backends.distributed.models.configuration import Configuration
from epochcast.analyzer.backends.distributed.models.graph import Operator, Tensor
from epochcast.analyzer.backends.distributed.models.trace import trace
from epochcast.analyzer.backends.distributed.models.user_module import resolve
from epochcast.analyzer.backends.distributed.operator_time.shapes import shapes_of
from epochcast.analyzer.backends.distributed.operator_time.table import CORPUS_COLUMNS
from epochcast.analyzer.backends.distributed.plan.job import Precision
from epochcast.analyzer.backends.network.fused import attention_flops
from lab.convmeter.collection import CollectionResult
from lab.convmeter.device import Device
from lab.distributed.profile import device_name, time_operators
from lab.growing_table import GrowingTable

_SMALLEST, _LARGEST = 5, 13  # powers of two that sizes lie between
_HEAD_DIMS = (64, 96, 128)

COLUMNS = (*CORPUS_COLUMNS, "shape", "precision", "iqr_seconds", "torch", "driver")
"""``driver`` is of a CPU its number of threads, ``op`` the aten name, ``shape`` JSON (:func:`operator_text`), ``precision``
that of the operator itself, ``pass`` forward or backward; times are medians over rounds and the range of the middle half."""

_IDENTITY = ("op", "pass", "precision", "shape")
_AT_ONCE = 24  # operators in the rounds of one profile; the file is written after each
_ROUNDS = 9
_BATCHES = (1, 2, 4, 8, 16)
_SEQUENCES = (512, 2048)
_RANDOM_SHARE = 0.5  # of random operators to those of models
_MOST_FLOPS = {"cpu": 3e10, "cuda": 2e13}  # a second at most
_MOST_BYTES = {"cpu": 1 << 30, "cuda": 8 << 30}
_SHORT = {"float64": "fp64", "float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True)
class PlannedOperator:
    """One operator to measure, with TF32 on or off."""

    operator: Operator
    precision: Precision

    @property
    def computed(self) -> str:
        """What the operator itself computes in: ``fp32``, ``tf32``, ``fp16``, ``bf16``, or its dtype."""
        dtype = self.operator.dtype
        return "tf32" if dtype == "float32" and self.precision.tf32 else _SHORT.get(dtype, dtype)


def plan(
    models: Sequence[str],
    precisions: Sequence[Precision],
    device: Device,
    seed: int,
    progress: Callable[[str], object] = lambda text: None,
) -> list[PlannedOperator]:
    """Unique operators of models at several batch and sequence sizes, and half as many random ones, in random order.

    The order takes turns between the kinds of operators, so that wherever it is stopped all kinds are there.

    Raises:
        InputError: an unknown model, or one that cannot be traced.
    """
    rng = random.Random(seed)
    items: dict[tuple[Operator, str], PlannedOperator] = {}
    for name, precision in itertools.product(models, precisions):
        progress(f"listing the operators of {name} in {precision.name}")
        for item in _of_model(name, precision, device):
            if item.operator.kind != "communication":
                items[item.operator, item.computed] = item
    for precision in precisions:
        count = max(round(_RANDOM_SHARE * len(items) / len(precisions)), 7)
        for operator in itertools.islice(random_operators(precision.autocast or precision.weights, rng), count):
            item = PlannedOperator(operator, precision)
            items.setdefault((operator, item.computed), item)
    groups: dict[str, list[PlannedOperator]] = defaultdict(list)
    for item in items.values():
        if item.operator.flops <= _MOST_FLOPS[device] and item.operator.bytes <= _MOST_BYTES[device]:
            groups[item.operator.kind].append(item)
    for group in groups.values():
        rng.shuffle(group)
    turns = itertools.zip_longest(*groups.values())
    return [item for turn in turns for item in turn if item is not None]


def _of_model(name: str, precision: Precision, device: Device) -> Iterator[PlannedOperator]:
    dtype = getattr(torch, precision.weights)
    seen = set()
    for batch, length in itertools.product(_BATCHES, _SEQUENCES):
        model = resolve(name, batch, length)
        if isinstance(model, Configuration):
            module: torch.nn.Module = build(model, length=length)
            keep_distinct(module)
            inputs: tuple[Any, ...] = example_inputs(model, batch, length)
        else:
            module, inputs = model.module, model.inputs
        sizes = tuple(tuple(tensor.shape) for tensor in inputs if isinstance(tensor, torch.Tensor))
        if sizes in seen:  # images have no sequence, and a model may have fewer positions than the longest
            continue
        seen.add(sizes)
        inputs = tuple(
            tensor.to(dtype) if isinstance(tensor, torch.Tensor) and tensor.is_floating_point() else tensor for tensor in inputs
        )
        graph = trace(module.to(dtype), inputs, precision, device, name=name)
        for block in (graph.before, *graph.blocks, graph.after):
            yield from (PlannedOperator(operator, precision) for operator in block.operators)


def collect(
    items: Sequence[PlannedOperator], path: Path, device: Device, budget_seconds: float, progress: Callable[[int, int], None]
) -> CollectionResult:
    """Measure what the file does not hold yet, until the budget ends, and write the file after every few operators.

    Args:
        items: what to measure, in order.
        path: a CSV file, begun or continued.
        device: where to measure.
        budget_seconds: no new profile begins after it.
        progress: called with the operators done and their total.

    Raises:
        InputError: the file holds something else, or cannot be written.
    """
    begin = time.monotonic()
    gpu, _, driver = device_name(device).partition(", ")
    place = {"gpu": gpu, "torch": torch.__version__, "driver": driver.removeprefix("driver ")}
    file = GrowingTable(path, COLUMNS, place, _IDENTITY)
    before, done, failed = file.rows, 0, 0
    missing = [item for item in items if _row(item) not in file]
    while done < len(missing) and (done == 0 or time.monotonic() - begin < budget_seconds):
        some = missing[done : done + _AT_ONCE]
        for with_tf32 in (False, True):
            group = [item for item in some if item.precision.tf32 is with_tf32]
            if group:
                left = max(budget_seconds - (time.monotonic() - begin), 0.0)
                timings = time_operators([item.operator for item in group], device, group[0].precision, left, _ROUNDS)
                for item in group:
                    if timing := timings.get(item.operator):
                        file.append({**_row(item), "seconds": timing.seconds, "iqr_seconds": timing.iqr})
                    else:
                        failed += 1
        done += len(some)
        progress(done, len(missing))
    return CollectionResult(file.rows, file.rows - before, len(missing) - done, failed)


def _row(item: PlannedOperator) -> dict[str, object]:
    """What is known of an operator before it is measured."""
    operator = item.operator
    identity = (operator.name, operator.phase, item.computed, operator_text(operator))
    (shape,) = shapes_of([operator], replace(item.precision, fp8=False)).to_dict("records")
    return {**dict(zip(_IDENTITY, identity, strict=True)), **{str(name): cell for name, cell in shape.items()}}


def random_operators(dtype: str, rng: random.Random) -> Iterator[Operator]:
    """Endlessly, in turn: a matrix product, a batch of them, attention, a norm, softmax, an addition and an activation.

    Sizes are uniform in their logarithm; of every other operator they are rounded up to multiples of 64, as those of models
    are.
    """
    aligned = True
    while True:
        aligned = not aligned

        def size(low: int = _SMALLEST, high: int = _LARGEST, to: int = 64 if aligned else 1) -> int:
            return -(-int(2 ** rng.uniform(low, high)) // to) * to

        rows, columns, inner, batch = size(), size(), size(), rng.choice((4, 8, 16, 32, 64))
        x, gain = Tensor((rows, columns), dtype), Tensor((columns,), dtype)
        yield _product((rows, inner), (inner, columns), dtype)
        length, width = size(6, 11), rng.choice(_HEAD_DIMS)
        yield _product((batch, length, width), (batch, width, length), dtype)
        heads = Tensor((rng.choice((1, 2, 4)), rng.choice((8, 12, 16, 32)), length, width), dtype)
        causal = rng.random() < 0.7
        flops = attention_flops(heads.shape, heads.shape, heads.shape, backward=False, causal=causal)
        arguments = (heads, heads, heads, None, 0.0, causal)
        yield Operator("epochcast.attention", "attention", "forward", (heads,) * 3, (heads,), flops, arguments=arguments)
        norm = (x, (columns,), gain, gain, 1e-5)
        yield Operator("aten.native_layer_norm.default", "normalisation", "forward", (x, gain, gain), (x,), arguments=norm)
        yield Operator("aten._softmax.default", "softmax", "forward", (x,), (x,), arguments=(x, -1, False))
        yield Operator("aten.add.Tensor", "elementwise", "forward", (x, x), (x,), arguments=(x, x))
        yield Operator("aten.gelu.default", "elementwise", "forward", (x,), (x,), arguments=(x, "tanh"))


def _product(left: tuple[int, ...], right: tuple[int, ...], dtype: str) -> Operator:
    a, b, c = Tensor(left, dtype), Tensor(right, dtype), Tensor((*left[:-1], right[-1]), dtype)
    name = "aten.mm.default" if len(left) == 2 else "aten.bmm.default"
    return Operator(name, "matmul", "forward", (a, b), (c,), 2.0 * c.elements * left[-1], arguments=(a, b))


def operator_text(operator: Operator) -> str:
    """JSON object with ``kind``, ``inputs``, ``outputs`` and ``arguments``; tensors are objects of ``dtype`` and ``shape``."""
    parts = {
        "kind": operator.kind,
        "inputs": _plain(operator.inputs),
        "outputs": _plain(operator.outputs),
        "arguments": _plain(operator.arguments),
    }
    return json.dumps(parts, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {"dtype": value.dtype, "shape": list(value.shape)}
    if isinstance(value, tuple):
        return [_plain(element) for element in value]
    return value
