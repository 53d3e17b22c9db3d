"""From a module to its graph: recorded, run again with autograd (:mod:`.replay`), cut into blocks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from epochcast.analyzer.backends.distributed.models import graph as g
from epochcast.analyzer.backends.distributed.models.replay import Replay, spec_of
from epochcast.analyzer.backends.distributed.plan.job import Precision
from epochcast.analyzer.backends.network.factory import one_line, place_of, why_untraceable
from epochcast.analyzer.backends.network.pretended_device import record_training
from epochcast.analyzer.backends.network.recording import Recording, storage_of
from epochcast.analyzer.errors import InputError


def trace(
    module: nn.Module,
    inputs: tuple[Any, ...],
    precision: Precision,
    device_type: str = "cuda",
    blocks: str | None = "blocks",
    name: str = "",
    extraction: g.Extraction = "recording",
) -> g.Graph:
    """Trace one training micro-batch: ``module(*inputs)`` and the backward pass of what it answers.

    Args:
        module: on any device, best ``meta``; it is neither changed nor computed. What it checkpoints by itself is traced as if
            it did not: recomputation is the job's.
        inputs: example inputs; the first axis of the first tensor is the micro-batch.
        precision: what the module trains in.
        device_type: whose autocast rules and layouts count, ``cuda`` or ``cpu``; the device need not be there.
        blocks: path of the container of repeated blocks; None or a path that is not there: all of the module is ``before``.
        name: of the model, for messages.
        extraction: of the operators, see :mod:`..network.recording` and :mod:`..network.pretended_device`.

    Raises:
        InputError: the module's forward fails without values or on stand-ins of torch.fx, or its answer has no gradient.
    """
    what = name or type(module).__name__
    try:
        recording = record_training(
            module, inputs, precision.weights, precision.autocast, device_type, by_fx=extraction == "fx"
        )
    except InputError:
        raise
    except Exception as error:  # the user's module may raise anything
        if extraction == "fx":
            reason = one_line(error).split(". ")[0]
            raise InputError(
                f"{what} cannot be traced by torch.fx{place_of(error)}: {reason}; leave out the recipe paper"
            ) from error
        raise InputError(why_untraceable(what, error)) from error
    replay = Replay(recording)
    replay.run(what)
    return _graph(what, module, precision, inputs, recording, replay, blocks)


def _graph(
    what: str,
    module: nn.Module,
    precision: Precision,
    inputs: tuple[Any, ...],
    recording: Recording,
    replay: Replay,
    container: str | None,
) -> g.Graph:
    paths = [call.module for call in recording.calls]
    names, places = _blocks(paths, container)
    last_kept: dict[str, int] = {}  # the last call of each block whose answer its own backward pass reads
    for keeper, maker in replay.saved:
        if places[keeper] == places[maker]:
            last_kept[places[maker]] = max(maker, last_kept.get(places[maker], 0))
    reads = [list(map(storage_of, inputs)) for _, inputs, _ in replay.ran]
    writes = [list(map(storage_of, outputs)) for _, _, outputs in replay.ran]
    operators: dict[str, list[g.Operator]] = defaultdict(list)
    recomputed: dict[str, int] = defaultdict(int)
    fused = g.fused_bytes(replay.operators, reads, writes)
    for (call, *_), operator, size in zip(replay.ran, replay.operators, fused, strict=True):
        place = places[call]
        recomputed[place] += operator.phase == "forward" and call <= last_kept.get(place, -1)
        operators[place].append(replace(operator, fused_bytes=size))
    saved: dict[str, float] = defaultdict(float)
    core: dict[str, float] = defaultdict(float)
    for (keeper, maker), size in replay.saved.items():
        saved[places[keeper]] += size
        if g.in_core(paths[maker]):  # what the core was given, selective recomputation keeps
            core[places[keeper]] += size
    for call, size in replay.core_inputs.values():  # storages that nothing else keeps
        core[places[call]] -= size
    weights, tied = _weights(module, recording, replay, places, names)
    ends = _ends(recording, places)

    def block(name: str) -> g.ModelBlock:
        return g.ModelBlock(
            name,
            tuple(operators[name]),
            tuple(weights[name]),
            saved_bytes=saved[name],
            core_saved_bytes=max(0.0, core[name]),
            output=ends.get(name),
            recomputed=recomputed[name],
        )

    first = next((leaf for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor) and leaf.dim()), None)
    return g.Graph(
        model=what,
        precision=precision.name,
        micro_batch=1 if first is None else len(first),
        before=block("before"),
        blocks=tuple(block(name) for name in names),
        after=block("after"),
        tied=tied,
    )


def _blocks(paths: Sequence[str], container: str | None) -> tuple[list[str], list[str]]:
    """Paths of the blocks that ran, in the order of running, and the block of each call.

    That is ``before`` ahead of the first block, ``after`` behind the last; between two, the earlier.
    """
    inside = re.compile(re.escape(f"{container}.") + r"[^.]+" if container else "(?!)")
    own = [match[0] if (match := inside.match(path)) else "" for path in paths]
    last = max((index for index, name in enumerate(own) if name), default=len(paths))
    places, current = [], "before"
    for index, name in enumerate(own):
        current = name or ("after" if index > last else current)
        places.append(current)
    return [name for name in dict.fromkeys(own) if name], places


def _weights(
    module: nn.Module, recording: Recording, replay: Replay, places: Sequence[str], blocks: Sequence[str]
) -> tuple[dict[str, list[g.Weight]], tuple[str, ...]]:
    """Each trained tensor at the blocks that use it, and the names of those that ``before`` and ``after`` share."""
    users: dict[int, list[int]] = defaultdict(list)
    for index, call in enumerate(recording.calls):
        for tensor in call.inputs:
            users[tensor.number].append(index)
    sliced = {name for name, parameter in module.named_parameters() if getattr(parameter, "tensor_sliced", False)}
    weights: dict[str, list[g.Weight]] = defaultdict(list)
    tied = []
    for name, number in recording.parameters.items():
        tensor = replay.tensors[number]
        calls = users[number]
        spec = spec_of(tensor)
        casts = [
            answer.meta.dtype
            for index in calls
            if recording.calls[index].operator is torch.ops.aten._to_copy.default
            for answer in recording.calls[index].outputs
        ]
        weight = g.Weight(name, spec, spec.dtype, str(casts[0]).removeprefix("torch.") if casts else spec.dtype, name in sliced)
        homes = list(dict.fromkeys(places[index] for index in calls))
        homes = homes or [next((block for block in blocks if name.startswith(f"{block}.")), "before")]
        if "before" in homes and "after" in homes:
            tied.append(name)
            homes = ["before", "after"]
        else:
            homes = homes[:1]
        for home in homes:
            weights[home].append(weight)
    return weights, tuple(tied)


def _ends(recording: Recording, places: Sequence[str]) -> dict[str, g.Tensor]:
    """The first floating tensor of each block's last call that made one (a norm makes its statistics after its answer).

    Before the blocks it is what the first of them reads first: angles of positions may be made after the activations.
    """
    ends: dict[str, g.Tensor] = {}
    handed: g.Tensor | None = None
    for call, place in zip(recording.calls, places, strict=True):
        if floating := [made.meta for made in call.outputs if made.meta.is_floating_point()]:
            ends[place] = spec_of(floating[0])
        if handed is None and place not in ("before", "after"):
            read = [one.meta for one in call.inputs if one.meta.is_floating_point() and one.number not in recording.external]
            handed = spec_of(read[0]) if read else None
    return ends if handed is None else {**ends, "before": handed}
