"""The forward pass as a list of aten calls, under the autocast of a device that need not be there.

Tensors that say they lie on that device wrap tensors of the meta device. torch's dispatcher takes them through the device's
real autocast rules, and what comes out below it is recorded: which operator, on which dtypes, for which module. Nothing is
computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.attention
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map, tree_map_only

from epochcast.analyzer.backends.distributed.attention_operator import attention
from epochcast.analyzer.backends.distributed.graph import Extraction
from epochcast.analyzer.backends.distributed.precision import Precision
from epochcast.analyzer.backends.distributed.symbolic import forward_by_fx
from epochcast.analyzer.backends.reader.running_modules import module_paths, named_tensors


@dataclass(frozen=True)
class TensorReference:
    """A tensor of a recorded call, by its number in order of appearance."""

    number: int


@dataclass(frozen=True)
class RecordedCall:
    """One aten call; tensors are :class:`TensorReference`. ``trained`` is False within ``torch.no_grad()``."""

    operator: Any
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    result: Any
    module: str
    trained: bool


@dataclass(frozen=True)
class ForwardRecording:
    """A forward pass: its calls, the tensors from outside by their numbers, the trained ones by name, and its outputs."""

    calls: tuple[RecordedCall, ...]
    external: Mapping[int, Tensor]
    parameters: Mapping[str, int]
    outputs: Any


class _OnDevice(torch.Tensor):
    """A meta tensor that reports another device."""

    meta: Tensor
    number: int

    @staticmethod
    def __new__(cls, meta: Tensor, device: str, number: int) -> _OnDevice:
        made: _OnDevice = torch.Tensor._make_wrapper_subclass(
            cls, meta.shape, strides=meta.stride(), storage_offset=meta.storage_offset(), dtype=meta.dtype, device=device
        )
        made.meta, made.number = meta, number
        return made

    @classmethod
    def __torch_dispatch__(cls, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{operator} was called on a traced tensor after the forward pass")


class _Recorder(TorchDispatchMode):
    """Runs every aten call on the meta device and writes it down."""

    def __init__(self, device: str, where: Callable[[], str]) -> None:
        super().__init__()
        self.device, self.where = device, where
        self.calls: list[RecordedCall] = []
        self.external: dict[int, Tensor] = {}
        self.paused = False
        self.trained = True
        self._wrapped: dict[int, _OnDevice] = {}  # by identity of the meta tensor, which the wrapper keeps alive
        self._constants: dict[int, tuple[Tensor, _OnDevice]] = {}

    def wrap(self, meta: Tensor) -> _OnDevice:
        known = self._wrapped.get(id(meta))
        if known is None:
            known = _OnDevice(meta, self.device, len(self._wrapped))
            self._wrapped[id(meta)] = known
        return known

    def wrap_external(self, tensor: Tensor) -> _OnDevice:
        """A tensor from outside the forward pass: a parameter, a buffer, an input or a constant of the module."""
        meta = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        wrapped = self.wrap(meta)
        self.external[wrapped.number] = meta
        return wrapped

    def _constant(self, tensor: Tensor) -> _OnDevice:
        if isinstance(tensor, _OnDevice):
            return tensor
        if id(tensor) not in self._constants:
            self._constants[id(tensor)] = (tensor, self.wrap_external(tensor))
        return self._constants[id(tensor)][1]

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if operator is torch.ops.prim.device.default:
            return torch.device(self.device)
        if "device" in kwargs:
            kwargs["device"] = torch.device("meta")
        args, kwargs = tree_map_only(Tensor, self._constant, (args, kwargs))
        answer = operator(*tree_map_only(_OnDevice, _meta, args), **tree_map_only(_OnDevice, _meta, kwargs))
        answer = tree_map_only(Tensor, self.wrap, answer)
        if not self.paused:
            places = tree_map_only(_OnDevice, _place, (args, kwargs, answer))
            self.calls.append(RecordedCall(operator, tuple(places[0]), places[1], places[2], self.where(), self.trained))
        return answer


_MOVES = (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu)


class _Functions(TorchFunctionMode):
    """What must be caught above the dispatcher.

    Scaled dot product attention becomes one operator, in the dtype that autocast gives to it. Tensors made on the device, or
    moved there, would have Python look for the device first: they are made on the meta device, and stay where they are.
    """

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if function is torch._C._set_grad_enabled:
            # Switched off already is what runs in an autograd.Function, whose backward pass is traced like any other.
            self.recorder.trained = bool(args[0]) or (self.recorder.trained and not torch.is_grad_enabled())
        if function in _MOVES:
            kept = [
                argument.dtype if isinstance(argument, Tensor) else argument
                for argument in args[1:]
                if not _is_device(argument)
            ]
            kwargs.pop("device", None)
            return args[0].to(*kept, **kwargs) if function is torch.Tensor.to and (kept or kwargs) else args[0]
        name = getattr(function, "__name__", "")
        if "device" in kwargs or name.startswith("new_") or name.endswith("_like"):
            kwargs["device"] = torch.device("meta")
        if function is not nn.functional.scaled_dot_product_attention:
            return self._call(function, args, kwargs)
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
        arguments = {**dict(zip(names, args, strict=False)), **kwargs}
        query, key, value = arguments["query"], arguments["key"], arguments["value"]
        self.recorder.paused = True
        try:
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                dtype = function(**arguments).dtype
        finally:
            self.recorder.paused = False
        heads = [_with_heads(tensor.to(dtype)) for tensor in (query, key, value)]
        answer, _ = attention(
            *heads, arguments.get("attn_mask"), float(arguments.get("dropout_p", 0.0)), bool(arguments.get("is_causal", False))
        )
        return answer.view(*query.shape[:-1], value.shape[-1])

    def _call(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call it; where torch looks for the device itself (indexing does), call it on tensors that say they are on meta.

        Autocast does not see those; it does not change indexing, masks and comparisons either.
        """
        recorded = len(self.recorder.calls)
        try:
            return function(*args, **kwargs)
        except RuntimeError as error:
            if "not linked with support" not in str(error):
                raise
        del self.recorder.calls[recorded:]
        args, kwargs = tree_map_only(_OnDevice, _alias, (args, kwargs))
        return function(*args, **kwargs)


def _with_heads(tensor: Tensor) -> Tensor:
    """As (batch, heads, s, d), with any axes before s and d."""
    return tensor.unsqueeze(0) if tensor.dim() == 3 else tensor.flatten(0, -4)


def _alias(tensor: _OnDevice) -> _OnDevice:
    """The same tensor, which reports the meta device."""
    return _OnDevice(tensor.meta, "meta", tensor.number)


def _is_device(value: Any) -> bool:
    number = isinstance(value, int) and not isinstance(value, bool)
    return number or isinstance(value, (str, torch.device))


def _meta(tensor: _OnDevice) -> Tensor:
    return tensor.meta


def _place(tensor: _OnDevice) -> TensorReference:
    return TensorReference(tensor.number)


def record(
    module: nn.Module, inputs: tuple[Any, ...], precision: Precision, device_type: str, extraction: Extraction = "recording"
) -> ForwardRecording:
    """Record ``module(*inputs)`` in training as a device of ``device_type`` (``cuda``, ``cpu``) would run it.

    Parameters, buffers and floating inputs count as of the precision's dtype, regardless of the module's; the module itself is
    not touched. With ``fx`` the nodes of its symbolic graph run in place of its forward. Errors of the module pass through.
    """
    device = "cpu" if device_type == "cpu" else f"{device_type}:0"
    dtype = getattr(torch, precision.weights)
    path: list[str] = []
    recorder = _Recorder(device, lambda: path[-1] if path else "")

    def wrap_external(tensor: Tensor) -> _OnDevice:
        shape = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=dtype if tensor.is_floating_point() else tensor.dtype, device="meta"
        )
        return recorder.wrap_external(shape)

    shared: dict[int, _OnDevice] = {}
    state: dict[str, _OnDevice] = {}
    for name, tensor in named_tensors(module):
        if id(tensor) not in shared:
            shared[id(tensor)] = wrap_external(tensor)
        state[name] = shared[id(tensor)]
    parameters = {name: state[name].number for name, parameter in module.named_parameters() if parameter.requires_grad}
    wrapped_inputs = tree_map_only(Tensor, wrap_external, inputs)
    with ExitStack() as stack:
        if extraction == "fx":
            stack.enter_context(forward_by_fx(module, inputs, path))
        stack.enter_context(torch.enable_grad())  # which no tensor here asks for: only so that torch.no_grad() shows
        stack.enter_context(_torch_as_on_the_device())
        stack.enter_context(module_paths(module, path))
        stack.enter_context(_autocast(device_type, precision))
        stack.enter_context(recorder)
        stack.enter_context(_Functions(recorder))
        answer = torch.func.functional_call(module, state, wrapped_inputs, tie_weights=False)
    places = tree_map(lambda leaf: _place(leaf) if isinstance(leaf, _OnDevice) else leaf, answer)
    return ForwardRecording(tuple(recorder.calls), recorder.external, parameters, places)


@contextmanager
def _torch_as_on_the_device() -> Iterator[None]:
    """Let what torch has in Python run as if the device were there.

    Functions in Python (multi-head attention) call what they are made of with each call caught by itself, where they would be
    caught whole; ``torch.autocast`` within a module does not switch itself off.
    """
    checks = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    replaced: dict[tuple[Any, str], Any] = {
        (owner, name): lambda *_: False for owner in (nn.functional, torch.functional) for name in checks
    }
    replaced[torch.cuda.amp.common, "amp_definitely_not_available"] = lambda: False
    replaced[torch.cuda, "is_bf16_supported"] = lambda *_: True
    kept = {(owner, name): getattr(owner, name) for owner, name in replaced}
    try:
        for (owner, name), function in replaced.items():
            setattr(owner, name, function)
        yield
    finally:
        for (owner, name), function in kept.items():
            setattr(owner, name, function)


@contextmanager
def _autocast(device_type: str, precision: Precision) -> Iterator[None]:
    """Switch on the device's autocast; ``torch.autocast`` would refuse for a device that is not there."""
    if precision.autocast is None:
        yield
        return
    enabled, dtype = torch.is_autocast_enabled(device_type), torch.get_autocast_dtype(device_type)
    torch.set_autocast_enabled(device_type, True)
    torch.set_autocast_dtype(device_type, getattr(torch, precision.autocast))
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
        torch.set_autocast_enabled(device_type, enabled)
        torch.set_autocast_dtype(device_type, dtype)
