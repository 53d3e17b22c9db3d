"""Graphs of a model for any job: built, sliced and traced once, then scaled to each micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from epochcast.analyzer.backends.distributed.models import Configuration, UserModule, resolve
from epochcast.analyzer.backends.distributed.models.building import Trained, build, example_inputs, keep_distinct, tensor_plan
from epochcast.analyzer.backends.distributed.models.graph import Extraction, Graph, ModelBlock
from epochcast.analyzer.backends.distributed.models.trace import trace
from epochcast.analyzer.backends.distributed.models.user_module import find_blocks, load
from epochcast.analyzer.backends.distributed.plan.context_parallel import share_context
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
        plan: how tensor parallelism splits a user's module; None: as its pairs of linear layers ask.
        extraction: how the operators are found.
    """

    model: Configuration | UserModule
    device_type: str = "cuda"
    plan: Mapping[str, str] | None = None
    extraction: Extraction = "recording"
    _known: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        text: str,
        device_type: str = "cuda",
        plan: Mapping[str, str] | None = None,
        extraction: Extraction = "recording",
    ) -> ModelGraphs:
        """Resolve a model by :func:`.models.resolve`; raises InputError."""
        return cls(resolve(text), device_type, plan, extraction)

    def graph(self, job: TrainingConfiguration) -> Graph:
        """The graph of one micro-batch of the job on one of its tensor ranks.

        Raises:
            InputError: the model cannot be traced, or does not divide over the tensor ranks.
        """
        return self._remembered(self._at, job, job.micro_batch)

    def _at(self, job: TrainingConfiguration, micro_batch: int) -> Graph:
        if isinstance(self.model, UserModule):
            return self._traced(job, micro_batch)
        small, large = (self._remembered(self._traced, job, size) for size in _TRACED)
        return at_micro_batch(small, large, micro_batch)

    def _remembered(self, make: Callable[..., Graph], job: TrainingConfiguration, micro_batch: int) -> Graph:
        of_job = (job.tensor, job.sequence_parallel, job.traced_precision, job.attention, job.sequence_length, job.context)
        key = (make.__name__, *of_job, micro_batch)
        if key not in self._known:
            self._known[key] = make(job, micro_batch)
        return cast("Graph", self._known[key])

    def _traced(self, job: TrainingConfiguration, micro_batch: int) -> Graph:
        tokens = job.sequence_length // job.context
        if job.context > 1 and (isinstance(self.model, UserModule) or self.model.images):
            raise InputError(
                f"context ranks share a language model's tokens, which {self.model.name} does not show; use 1 context rank"
            )
        if isinstance(self.model, UserModule):
            made = load(self.model.name, micro_batch, tokens)
            module, inputs, plan = made.module, _batch_of(made, micro_batch), self.plan
            blocks, order = find_blocks(module), None
        else:
            module, order = self._built(self.model, job)
            inputs = example_inputs(self.model, micro_batch, tokens)
            blocks, plan = module.blocks, self.plan
            if job.tensor > 1 and plan is None:
                plan = tensor_plan(self.model, module)
        sliced = slice_for_tensor_parallel(module, job.tensor, job.sequence_parallel, plan, blocks)
        graph = trace(sliced, inputs, job.traced_precision, self.device_type, blocks, self.model.name, self.extraction)
        if job.context > 1:
            graph = share_context(graph, job.context)
        return graph if order is None else replace(graph, blocks=tuple(graph.blocks[kind] for kind in order))

    def _built(self, model: Configuration, job: TrainingConfiguration) -> tuple[Trained, tuple[int, ...]]:
        """The module with one of all layers that are alike, and which of those each layer is like."""
        key = ("module", job.attention, max(model.positions, job.sequence_length))
        if key not in self._known:
            module = build(model, job.attention, job.sequence_length)
            self._known[key] = module, keep_distinct(module)
        return cast("tuple[Trained, tuple[int, ...]]", self._known[key])


def _batch_of(model: UserModule, micro_batch: int) -> tuple[Any, ...]:
    """The example inputs with ``micro_batch`` samples: every tensor that has the example's batch as its first axis.

    They are as they should be where the factory takes ``batch``.
    """
    tensors = [tensor for tensor in torch.utils._pytree.tree_leaves(model.inputs) if isinstance(tensor, Tensor)]
    batch = next((tensor.shape[0] for tensor in tensors if tensor.dim()), None)
    if batch is None:
        raise InputError(f"the example inputs of {model.name} have no tensor with a batch axis; return one from the factory")

    def resized(tensor: Tensor) -> Tensor:
        if tensor.dim() == 0 or tensor.shape[0] != batch:
            return tensor
        return torch.empty((micro_batch, *tensor.shape[1:]), dtype=tensor.dtype, device="meta")

    return cast("tuple[Any, ...]", tree_map_only(Tensor, resized, model.inputs))


def at_micro_batch(small: Graph, large: Graph, micro_batch: int) -> Graph:
    """Scale two graphs of the same model, with different micro-batches, to a third.

    Equal blocks stay one object. The two must come from micro-batches of 2 or more, as operators may leave out work at 1.
    """
    share = (micro_batch - small.micro_batch) / (large.micro_batch - small.micro_batch)

    @cache
    def block(index: int) -> ModelBlock:
        return cast("ModelBlock", _between(small.blocks[index], large.blocks[index], share))

    first = {id(small_block): index for index, small_block in reversed(list(enumerate(small.blocks)))}
    return replace(
        small,
        micro_batch=micro_batch,
        before=_between(small.before, large.before, share),
        blocks=tuple(block(first[id(small_block)]) for small_block in small.blocks),
        after=_between(small.after, large.after, share),
    )


def _between(small: Any, large: Any, share: float) -> Any:
    """``small + share (large − small)`` of every number within; what is not a number must be equal."""
    if small is None or isinstance(small, (bool, str)):
        return small
    if isinstance(small, int):
        return round(small + share * (large - small))
    if isinstance(small, float):
        return small if small == large else small + share * (large - small)
    if isinstance(small, tuple):
        return tuple(_between(*pair, share) for pair in zip(small, large, strict=True))
    if is_dataclass(small) and not isinstance(small, type):
        names = [field.name for field in fields(small)]
        return type(small)(**{name: _between(getattr(small, name), getattr(large, name), share) for name in names})
    return small
