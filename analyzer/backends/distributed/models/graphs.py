"""Graphs of a model for any job: built, sliced and traced once, then scaled to each micro-batch.

Under context parallelism each rank has a part of the sequence, and gathers keys and values of the whole for attention. As
Llama 3 was trained (Grattafiori et al. 2024, section 3.3.2): the ranks take parts from both ends of the sequence, so that a
causal mask leaves each as much work.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass, replace
from operator import mul
from typing import Any, cast

from epochcast.analyzer.backends.distributed.models.building import Trained, build, example_inputs, keep_distinct, tensor_plan
from epochcast.analyzer.backends.distributed.models.configuration import Configuration
from epochcast.analyzer.backends.distributed.models.graph import Extraction, Graph, ModelBlock, Operator, Tensor
from epochcast.analyzer.backends.distributed.models.trace import trace
from epochcast.analyzer.backends.distributed.models.user_module import UserModule, find_blocks, load, resolve
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.plan.tensor_slicing import slice_for_tensor_parallel
from epochcast.analyzer.errors import InputError

_TRACED = (2, 4)
"""Micro-batches that are traced; at 1, torch leaves out copies that it makes at any other."""


@dataclass
class ModelGraphs:
    """The graphs of one model.

    Attributes:
        model: as resolved from a name, numbers, a Hugging Face configuration or an import path.
        device_type: whose autocast rules hold, ``cuda`` or ``cpu``.
        extraction: how the operators are found.
    """

    model: Configuration | UserModule
    device_type: str = "cuda"
    extraction: Extraction = "recording"
    _graphs: dict[Any, Graph] = field(default_factory=dict, init=False, repr=False)
    _pairs: dict[Any, tuple[Graph, Graph]] = field(default_factory=dict, init=False, repr=False)
    _modules: dict[Any, tuple[Trained, tuple[int, ...]]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, text: str, device_type: str = "cuda", extraction: Extraction = "recording") -> ModelGraphs:
        """Resolve a model by :func:`.models.resolve`; raises InputError."""
        return cls(resolve(text), device_type, extraction)

    def graph(self, job: TrainingConfiguration) -> Graph:
        """The graph of one micro-batch of the job on one of its tensor ranks.

        Raises:
            InputError: the model cannot be traced, or does not divide over the tensor ranks.
        """
        of_job = (job.tensor, job.sequence_parallel, job.traced_precision, job.attention, job.sequence_length, job.context)
        key = (*of_job, job.micro_batch)
        if key not in self._graphs:
            if isinstance(self.model, UserModule):
                self._graphs[key] = self._own(self.model, job)
            else:
                if of_job not in self._pairs:
                    small, large = (self._traced(self.model, job, size) for size in _TRACED)
                    self._pairs[of_job] = small, large
                self._graphs[key] = at_micro_batch(*self._pairs[of_job], job.micro_batch)
        return self._graphs[key]

    def _own(self, model: UserModule, job: TrainingConfiguration) -> Graph:
        """The graph of a user's module."""
        if job.tensor > 1:
            raise InputError(f"tensor ranks split models of transformers; {model.name} is a module of your own: use 1 of them")
        if job.context > 1:
            raise InputError(_no_context(model.name))
        made = load(model.name, job.micro_batch, job.sequence_length)
        blocks = find_blocks(made.module)
        return trace(made.module, made.inputs, job.traced_precision, self.device_type, blocks, model.name, self.extraction)

    def _traced(self, model: Configuration, job: TrainingConfiguration, micro_batch: int) -> Graph:
        if job.context > 1 and model.images:
            raise InputError(_no_context(model.name))
        key = (job.attention, max(model.positions, job.sequence_length))
        if key not in self._modules:
            module = build(model, job.attention, job.sequence_length)
            self._modules[key] = module, keep_distinct(module)
        module, order = self._modules[key]
        inputs = example_inputs(model, micro_batch, job.sequence_length // job.context)
        plan = tensor_plan(model, module) if job.tensor > 1 else {}
        sliced = slice_for_tensor_parallel(module, job.tensor, plan, job.sequence_parallel, module.blocks)
        graph = trace(sliced, inputs, job.traced_precision, self.device_type, module.blocks, model.name, self.extraction)
        if job.context > 1:
            graph = share_context(graph, job.context)
        return replace(graph, blocks=tuple(graph.blocks[kind] for kind in order))


def _no_context(model: str) -> str:
    return f"context ranks share a language model's tokens, which {model} does not show; use 1 context rank"


def at_micro_batch(small: Graph, large: Graph, micro_batch: int) -> Graph:
    """Scale two graphs of the same model, with different micro-batches, to a third.

    Blocks that are one object stay one. The two are of micro-batches of 2 or more, as operators may leave out work at 1.
    """
    share = (micro_batch - small.micro_batch) / (large.micro_batch - small.micro_batch)
    return cast("Graph", _between(small, large, share, {}))


def _between(small: Any, large: Any, share: float, known: dict[int, Any]) -> Any:
    """``small + share (large − small)`` of every number within; what is not a number must be equal."""
    if isinstance(small, ModelBlock) and id(small) in known:
        return known[id(small)]
    if small is None or isinstance(small, (bool, str)):
        return small
    if isinstance(small, int):
        return round(small + share * (large - small))
    if isinstance(small, float):
        return small if small == large else small + share * (large - small)
    if isinstance(small, tuple):
        return tuple(_between(*pair, share, known) for pair in zip(small, large, strict=True))
    if is_dataclass(small) and not isinstance(small, type):
        names = [field.name for field in fields(small)]
        made = type(small)(**{name: _between(getattr(small, name), getattr(large, name), share, known) for name in names})
        if isinstance(small, ModelBlock):
            known[id(small)] = made
        return made
    return small


_SEQUENCE = 2
"""Axis of keys and values (batch, heads, s, d)."""


def share_context(graph: Graph, ranks: int) -> Graph:
    """The graph of one rank's part of the sequence with attention over all of it, and the exchanges that this takes.

    Args:
        graph: traced with a part of the sequence.
        ranks: parts, 2 or more.

    Raises:
        InputError: no operator of the model is fused attention.
    """
    if not any(operator.kind == "attention" for block in graph.blocks for operator in block.operators):
        raise InputError(f"{graph.model} has no fused attention, which context ranks share; take fused attention or 1 rank")
    blocks: dict[int, ModelBlock] = {}
    for block in graph.blocks:
        if id(block) not in blocks:
            blocks[id(block)] = _shared(block, ranks)
    return replace(graph, blocks=tuple(blocks[id(block)] for block in graph.blocks))


def _shared(block: ModelBlock, ranks: int) -> ModelBlock:
    operators: list[Operator] = []
    saved = 0
    for operator in block.operators:
        if operator.kind != "attention":
            operators.append(operator)
            continue
        first = 0 if operator.phase == "forward" else 1  # the backward pass reads a gradient before query, key and value
        own = operator.inputs[first + 1 : first + 3]
        sides = [ranks if axis == _SEQUENCE else 1 for axis in range(4)]
        whole = tuple(replace(one, shape=tuple(map(mul, one.shape, sides))) for one in own)
        inputs = (*operator.inputs[: first + 1], *whole, *operator.inputs[first + 3 :])
        outputs = operator.outputs
        pairs = list(zip(own, whole, strict=True))
        gathers = [_exchange("context_gather", operator, part, full) for part, full in pairs]
        scatters = []
        if operator.phase == "backward":  # gathers again what it does not keep, and sums the gradients of keys and values
            outputs = (outputs[0], *whole)
            scatters = [_exchange("context_scatter", operator, full, part) for part, full in pairs]
        operators += [*gathers, replace(operator, inputs=inputs, outputs=outputs, flops=operator.flops * ranks), *scatters]
        saved = max(saved, sum(tensor.bytes for tensor in whole))
    again = 2 * sum(operator.kind == "attention" for operator in block.again)
    return replace(block, operators=tuple(operators), recomputed=block.recomputed + again, working_bytes=saved)


def _exchange(name: str, of: Operator, given: Tensor, made: Tensor) -> Operator:
    return Operator(f"epochcast.{name}", "communication", of.phase, (given,), (made,), module=of.module)
