"""A network's forward pass as a list of aten calls: the one reader of networks. Nothing is computed, and nothing has memory.

Tensors wrap tensors of the meta device and may say that they lie on another; what torch's dispatcher makes of the forward pass
is recorded with the path of the module that runs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_map_only, tree_unflatten


@dataclass(frozen=True)
class TensorReference:
    """A tensor of a recorded call, by its number in order of appearance; ``meta`` has its shape, strides, type and storage."""

    number: int
    meta: Tensor = field(compare=False, repr=False)

    @property
    def storage(self) -> int:
        """What two tensors have in common that show the same memory."""
        return storage_of(self.meta)

    @property
    def elements(self) -> int:
        """Elements that lie in memory, however often a broadcast view repeats them."""
        sides = zip(self.meta.shape, self.meta.stride(), strict=True)
        return math.prod(side for side, step in sides if step or side == 0)


@dataclass(frozen=True)
class RecordedCall:
    """One aten call; tensors are :class:`TensorReference`.

    Attributes:
        operator: ``OpOverload``.
        arguments, options: positional ones, and those by name.
        result: what it answers.
        path: of the modules that were running, the outermost (``""``) first.
        trained: False within ``torch.no_grad()``.
    """

    operator: Any
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    result: Any
    path: tuple[str, ...]
    trained: bool

    @property
    def module(self) -> str:
        """Path of the module whose forward made the call."""
        return self.path[-1] if self.path else ""

    @property
    def inputs(self) -> list[TensorReference]:
        """Tensors among the arguments."""
        return references((self.arguments, self.options))

    @property
    def outputs(self) -> list[TensorReference]:
        """Tensors that it answers."""
        return references(self.result)


@dataclass(frozen=True)
class Recording:
    """A forward pass.

    Attributes:
        calls: in their order.
        external: tensors from outside, by number: parameters, buffers, inputs, constants.
        inputs: numbers of the inputs.
        parameters: numbers of the trained ones, by name.
        outputs: what the module answers.
    """

    calls: tuple[RecordedCall, ...]
    external: Mapping[int, Tensor]
    inputs: frozenset[int]
    parameters: Mapping[str, int]
    outputs: Any


def references(values: Any) -> list[TensorReference]:
    """The tensors in values of any nesting."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, TensorReference)]


def storage_of(tensor: Tensor) -> int:
    """What two tensors have in common that show the same memory."""
    return int(tensor.untyped_storage()._cdata)


class TracedTensor(Tensor):
    """A meta tensor that reports a device of its own."""

    meta: Tensor
    number: int

    @staticmethod
    def __new__(cls, meta: Tensor, device: str, number: int) -> TracedTensor:
        """As PyTorch makes tensors without memory."""
        made: TracedTensor = torch.Tensor._make_wrapper_subclass(
            cls, meta.shape, strides=meta.stride(), storage_offset=meta.storage_offset(), dtype=meta.dtype, device=device
        )
        made.meta, made.number = meta, number
        return made

    @classmethod
    def __torch_dispatch__(cls, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{operator} was called on a traced tensor after the forward pass")


class Recorder(TorchDispatchMode):
    """Runs every aten call on the meta device and writes it down.

    Args:
        device: that the tensors report.
    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device
        self.path: list[str] = []
        self.calls: list[RecordedCall] = []
        self.external: dict[int, Tensor] = {}
        self.paused = False
        self.trained = True
        self._wrapped: dict[int, TracedTensor] = {}  # by identity of the meta tensor, which the wrapper keeps alive
        self._outside: dict[int, tuple[Tensor, TracedTensor]] = {}

    def _wrap(self, meta: Tensor) -> TracedTensor:
        known = self._wrapped.get(id(meta))
        if known is None:
            known = self._wrapped[id(meta)] = TracedTensor(meta, self.device, len(self._wrapped))
        return known

    def wrap_external(self, tensor: Tensor, dtype: torch.dtype | None = None) -> TracedTensor:
        """A tensor from outside the forward pass, as of ``dtype`` if it is floating and one is given."""
        if isinstance(tensor, TracedTensor):
            return tensor
        if id(tensor) not in self._outside:
            kept = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
            meta = torch.empty_strided(tensor.shape, tensor.stride(), dtype=kept, device="meta")
            wrapped = self._wrap(meta)
            self.external[wrapped.number] = meta
            self._outside[id(tensor)] = (tensor, wrapped)
        return self._outside[id(tensor)][1]

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if operator is torch.ops.prim.device.default:
            return torch.device(self.device)
        if "device" in kwargs:
            kwargs["device"] = torch.device("meta")
        leaves, places = tree_flatten((args, kwargs))
        leaves = [self.wrap_external(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        args, kwargs = tree_unflatten([leaf.meta if isinstance(leaf, TracedTensor) else leaf for leaf in leaves], places)
        answer = tree_map_only(Tensor, self._wrap, operator(*args, **kwargs))
        if not self.paused:
            args, kwargs = tree_unflatten(map(_reference, leaves), places)
            result = tree_map(_reference, answer)
            self.calls.append(RecordedCall(operator, tuple(args), kwargs, result, tuple(self.path), self.trained))
        return answer


def _reference(leaf: Any) -> Any:
    return TensorReference(leaf.number, leaf.meta) if isinstance(leaf, TracedTensor) else leaf


def record(module: nn.Module, inputs: tuple[Any, ...], recorder: Recorder, dtype: torch.dtype) -> Recording:
    """Record ``module(*inputs)``; neither the module nor its tensors are changed, and its errors pass through.

    Args:
        module: on any device.
        inputs: of any nesting.
        recorder: to whose ``path`` also what runs in place of the module's forward may add where it is.
        dtype: that parameters, buffers and inputs count as where they are floating.
    """
    state = {name: recorder.wrap_external(tensor, dtype) for name, tensor in _named_tensors(module)}
    parameters = {name: state[name].number for name, parameter in module.named_parameters() if parameter.requires_grad}
    wrapped = tree_map_only(Tensor, lambda tensor: recorder.wrap_external(tensor, dtype), inputs)
    numbers = frozenset(leaf.number for leaf in tree_leaves(wrapped) if isinstance(leaf, TracedTensor))
    with _module_paths(module, recorder.path), recorder:
        answer = torch.func.functional_call(module, state, wrapped, tie_weights=False)
    return Recording(tuple(recorder.calls), recorder.external, numbers, parameters, tree_map(_reference, answer))


def record_evaluation(module: nn.Module, inputs: tuple[Any, ...], whole: bool = False) -> Recording:
    """Record a module as it runs in evaluation, all floats of one type.

    Args:
        module, inputs: as for :func:`record`.
        whole: whether operators that torch makes of others (dense layers, attention, recurrent layers, dropout, which does
            nothing here) are one call each.
    """
    modes = [(part, part.training) for part in module.modules()]
    compiling = torch.compiler._is_compiling_flag
    module.eval()
    try:
        # Libraries leave out checks of values where a compiler reads them, as torch.export shows it to them.
        torch.compiler._is_compiling_flag = compiling or whole
        # In inference mode the dispatcher hands composite operators to a mode before it takes them apart.
        with torch.inference_mode(whole), torch.no_grad():
            return record(module, inputs, Recorder("meta"), torch.float32)
    finally:
        torch.compiler._is_compiling_flag = compiling
        for part, training in modes:
            part.training = training


@contextmanager
def _module_paths(root: nn.Module, path: list[str]) -> Iterator[None]:
    """Keep in ``path`` the names of the modules whose forward is running, the outermost (``""``) first."""
    names: dict[int, list[str]] = defaultdict(list)
    for name, module in root.named_modules(remove_duplicate=False):
        names[id(module)].append(name)

    def enter(module: nn.Module, _: Any) -> None:
        caller = path[-1] if path else ""
        known = names.get(id(module), [caller])  # a layer may be shared, under several names
        path.append(next((name for name in known if name.startswith(f"{caller}.")), known[0]))

    def leave(module: nn.Module, _: Any, __: Any) -> None:
        path.pop()

    before = hooks.register_module_forward_pre_hook(enter)
    after = hooks.register_module_forward_hook(leave, always_call=True)
    try:
        yield
    finally:
        before.remove()
        after.remove()


def _named_tensors(root: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers by name, each place that holds one exactly once.

    A tensor that two modules share comes twice, those of a module that has two names come once: put in their place by both
    names, ``torch.func.functional_call`` would leave what was put there.
    """
    for path, module in root.named_modules():
        for name, tensor in chain(module._parameters.items(), module._buffers.items()):
            if tensor is not None:
                yield f"{path}.{name}" if path else name, tensor
