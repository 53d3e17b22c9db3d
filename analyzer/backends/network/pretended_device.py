"""A training's forward pass as a GPU would run it, where there is none: its autocast rules, and attention as one operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.attention
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from epochcast.analyzer.backends.network.fused import attention
from epochcast.analyzer.backends.network.recording import Recorder, Recording, TracedTensor, record
from epochcast.analyzer.backends.network.symbolic import forward_by_fx


def record_training(
    module: nn.Module, inputs: tuple[Any, ...], dtype: str, autocast: str | None, device_type: str, by_fx: bool = False
) -> Recording:
    """Record ``module(*inputs)`` in training as a device of ``device_type`` (``cuda``, ``cpu``) would run it.

    Args:
        module, inputs: as for :func:`.recording.record`.
        dtype: of parameters, buffers and floating inputs, regardless of the module's.
        autocast: type that autocast is on for.
        device_type: need not be there.
        by_fx: run the nodes of the module's symbolic graph in place of its forward.
    """
    recorder = Recorder("cpu" if device_type == "cpu" else f"{device_type}:0")
    with ExitStack() as stack:
        if by_fx:
            stack.enter_context(forward_by_fx(module, recorder))
        stack.enter_context(torch.enable_grad())  # which no tensor here asks for: only so that torch.no_grad() shows
        stack.enter_context(_torch_as_on_the_device())
        stack.enter_context(_autocast(device_type, autocast))
        stack.enter_context(_Functions(recorder))
        return record(module, inputs, recorder, getattr(torch, dtype))


_MOVES = (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu)


class _Functions(TorchFunctionMode):
    """What must be caught above the dispatcher.

    Scaled dot product attention becomes one operator, in the dtype that autocast gives to it. Tensors made on the device, or
    moved there, would have Python look for the device first: they are made on the meta device, and stay where they are.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if any(issubclass(kind, fx.Proxy) for kind in types):
            return function(*args, **kwargs)
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
        paused, self.recorder.paused = self.recorder.paused, True
        try:
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                dtype = function(**arguments).dtype
        finally:
            self.recorder.paused = paused
        heads = [_with_heads(tensor.to(dtype)) for tensor in (query, key, value)]
        answer, _ = attention(
            *heads, arguments.get("attn_mask"), float(arguments.get("dropout_p", 0.0)), bool(arguments.get("is_causal", False))
        )
        return answer.reshape(*query.shape[:-1], value.shape[-1])

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
        args, kwargs = tree_map_only(TracedTensor, _alias, (args, kwargs))
        return function(*args, **kwargs)


def _with_heads(tensor: Tensor) -> Tensor:
    """As (batch, heads, s, d), with any axes before s and d."""
    return tensor.unsqueeze(0) if tensor.dim() == 3 else tensor.flatten(0, -4)


def _alias(tensor: TracedTensor) -> TracedTensor:
    """The same tensor, which reports the meta device."""
    return TracedTensor(tensor.meta, "meta", tensor.number)


def _is_device(value: Any) -> bool:
    number = isinstance(value, int) and not isinstance(value, bool)
    return number or isinstance(value, (str, torch.device))


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
def _autocast(device_type: str, dtype: str | None) -> Iterator[None]:
    """Switch on the device's autocast; ``torch.autocast`` would refuse for a device that is not there."""
    if dtype is None:
        yield
        return
    before = torch.is_autocast_enabled(device_type), torch.get_autocast_dtype(device_type)
    torch.set_autocast_enabled(device_type, True)
    torch.set_autocast_dtype(device_type, getattr(torch, dtype))
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
        torch.set_autocast_enabled(device_type, before[0])
        torch.set_autocast_dtype(device_type, before[1])
