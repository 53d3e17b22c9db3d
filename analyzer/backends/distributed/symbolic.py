"""The paper's way to a model's operators (section III): the graph of ``torch.fx``, whose nodes run in place of the forward.

fx runs the forward once on stand-ins without values and writes down what it calls; a layer of ``torch.nn`` is one node. Control
flow, ``torch.no_grad`` and ``torch.autocast`` within the module are gone from the graph, and ``x += y`` is ``x + y`` in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

from torch import Tensor, fx, nn
from torch.utils._pytree import tree_leaves


class _Nodes(fx.Interpreter):
    """Runs a graph on the module that it was traced from, with the path of each node's module on top of ``path``."""

    def __init__(self, module: nn.Module, graph: fx.Graph, path: list[str]) -> None:
        super().__init__(module, graph=graph)
        self.path, self.extra_traceback = path, False

    def run_node(self, n: fx.Node) -> Any:
        stack = list(n.meta.get("nn_module_stack", {}).values())
        self.path.append(stack[-1][0] if stack else "")
        try:
            return super().run_node(n)
        finally:
            self.path.pop()


@contextmanager
def forward_by_fx(module: nn.Module, inputs: tuple[Any, ...], path: list[str]) -> Iterator[None]:
    """Trace the module symbolically, and have its graph run where it is called, with the running module's path in ``path``.

    What is no tensor among the inputs, and every default of the forward, is constant. Errors of fx and of the module pass
    through; the module is as before in the end.
    """
    before = dict(vars(module))
    given = signature(module.forward).bind(*inputs)
    given.apply_defaults()
    constants = {
        name: value
        for name, value in given.arguments.items()
        if not any(isinstance(leaf, Tensor) for leaf in tree_leaves(value))
    }
    try:
        graph = fx.Tracer().trace(module, constants)
        module.forward = _Nodes(module, graph, path).run
        yield
    finally:
        for name in vars(module).keys() - before.keys():  # tensors that the forward makes: fx keeps them in the module
            delattr(module, name)
        vars(module).update(before)
