"""A training's forward pass as a GPU would run it, where there is none: its autocast rules, and attention as one operator.

The paper's way to a model's operators (section III) is the graph of ``torch.fx``, whose nodes run in place of the forward. fx
runs the forward once on stand-ins and writes down what it calls; a layer of ``torch.nn`` is one node. The stand-ins know their
shapes and types, not their values. Control flow, ``torch.no_grad`` and ``torch.autocast`` within the module are gone from the
graph, ``x += y`` is ``x + y`` in it, and what is computed of no input is a constant of it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

import torch
import torch.nn.attention
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from epochcast.analyzer.backends.network.fused import attention
from epochcast.analyzer.backends.network.recording import Recorder, Recording, TracedTensor, record


class _StandIn(fx.Proxy):
    """A tensor of the graph; what does not depend on its values is as of ``like``."""

    like: Tensor

    def __getattr__(self, name: str) -> Any:
        known = getattr(self.like, name)
        return super().__getattr__(name) if callable(known) or isinstance(known, Tensor) else known


class _Tracer(fx.Tracer):
    """Stands in for every tensor of the inputs; what else they hold, and every default of the forward, is as it is."""

    def __init__(self, inputs: tuple[Any, ...]) -> None:
        super().__init__()
        self.inputs, self.computing = inputs, False

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        numbers = count()

        def stand_in(tensor: Tensor) -> Any:
            return self._stand_in(self.create_node("placeholder", f"input_{next(numbers)}", (), {}), tensor)

        return root_fn, [self.root, *tree_map_only(Tensor, stand_in, self.inputs)]

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *more: Any, **named: Any) -> Any:
        """What a call gives: a stand-in for a tensor, a number or a size as it is."""
        made = super().create_proxy(kind, target, args, kwargs, *more, **named)
        given, options = tree_map_only(fx.Proxy, _like, (args, kwargs))
        self.computing = True
        try:
            match kind:
                case "call_method":
                    like = getattr(given[0], target)(*given[1:], **options)
                case "call_module":
                    like = self.root.get_submodule(target)(*given, **options)
                case "get_attr":
                    like = operator.attrgetter(target)(self.root)
                case _:
                    like = target(*given, **options)
        finally:
            self.computing = False
        if isinstance(like, (tuple, list)) and any(isinstance(one, Tensor) for one in like):
            parts = (self.create_node("call_function", operator.getitem, (made.node, index), {}) for index in range(len(like)))
            return tuple(self._stand_in(part, one) for part, one in zip(parts, like, strict=True))
        return self._stand_in(made.node, like) if isinstance(like, Tensor) else like

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """A parameter as a node of its own."""
        if self.computing or not isinstance(attr_val, Tensor):
            return attr_val
        name = next((name for name, parameter in self.root.named_parameters() if parameter is attr_val), None)
        if name is None:
            return attr_val
        if name not in parameter_proxy_cache:
            parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {})
        return parameter_proxy_cache[name]

    def _stand_in(self, node: fx.Node, like: Tensor) -> _StandIn:
        made = _StandIn(node, self)
        made.like = like
        return made

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        """A layer as a node, unless it is run for what its answer is like."""
        return forward(*args, **kwargs) if self.computing else super().call_module(m, forward, args, kwargs)


def _like(proxy: Any) -> Any:
    return proxy.like if isinstance(proxy, _StandIn) else getattr(_like(proxy.root), proxy.attr)  # an attribute of another


class _Nodes(fx.Interpreter):
    """Runs a graph on the module that it was traced from, with the path of each node's module on top of ``path``."""

    def __init__(self, module: nn.Module, graph: fx.Graph, path: list[str]) -> None:
        super().__init__(module, graph=graph)
        self.path, self.extra_traceback = path, False

    def forward(self, *inputs: Any) -> Any:
        """What the module answers."""
        return self.run(*(leaf for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor)))

    def run_node(self, n: fx.Node) -> Any:
        """Run one node."""
        stack = list(n.meta.get("nn_module_stack", {}).values())
        self.path.append(stack[-1][0] if stack else "")
        try:
            return super().run_node(n)
        finally:
            self.path.pop()


@contextmanager
def forward_by_fx(module: nn.Module, recorder: Recorder) -> Iterator[None]:
    """Have the module's symbolic graph run where it is called within ``recorder``, which learns the running module's path.

    Errors of fx and of the module pass through; the module is as before in the end.
    """
    before = dict(vars(module))

    def forward(*inputs: Any) -> Any:
        recorder.paused = True
        graph = _Tracer(inputs).trace(module)
        recorder.paused = False
        for name in vars(module).keys() - before.keys():  # tensors that the forward makes: fx keeps them in the module
            if isinstance(constant := getattr(module, name), TracedTensor):
                recorder.external[constant.number] = constant.meta
        return _Nodes(module, graph, recorder.path).forward(*inputs)

    try:
        module.forward = forward
        yield
    finally:
        for name in vars(module).keys() - before.keys():
            delattr(module, name)
        vars(module).update(before)


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
