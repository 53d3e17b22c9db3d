"""The paper's way to a model's operators (section III): the graph of ``torch.fx``, whose nodes run in place of the forward.

fx runs the forward once on stand-ins and writes down what it calls; a layer of ``torch.nn`` is one node. The stand-ins know
their shapes and types, not their values. Control flow, ``torch.no_grad`` and ``torch.autocast`` within the module are gone from
the graph, ``x += y`` is ``x + y`` in it, and what is computed of no input is a constant of it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from torch import Tensor, fx, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from epochcast.analyzer.backends.network.recording import Recorder, TracedTensor


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
