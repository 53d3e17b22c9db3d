"""The paper's way to a model's operators (section III): the graph of ``torch.fx``, whose nodes run in place of the forward.

fx runs the forward once on stand-ins without values and writes down what it calls; a layer of ``torch.nn`` is one node. Control
flow, ``torch.no_grad`` and ``torch.autocast`` within the module are gone from the graph, and ``x += y`` is ``x + y`` in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from torch import Tensor, fx, nn
from torch.utils._pytree import tree_leaves, tree_map_only


class _Tracer(fx.Tracer):
    """Stands in for every tensor of the inputs; what else they hold, and every default of the forward, is as it is."""

    def __init__(self, inputs: tuple[Any, ...]) -> None:
        super().__init__()
        self.inputs = inputs

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        numbers = count()
        stand_ins = tree_map_only(
            Tensor, lambda _: self.create_proxy("placeholder", f"input_{next(numbers)}", (), {}), self.inputs
        )
        return root_fn, [self.root, *stand_ins]


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
def forward_by_fx(module: nn.Module, inputs: tuple[Any, ...], path: list[str]) -> Iterator[None]:
    """Trace the module symbolically, and have its graph run where it is called, with the running module's path in ``path``.

    Errors of fx and of the module pass through; the module is as before in the end.
    """
    before = dict(vars(module))
    try:
        module.forward = _Nodes(module, _Tracer(inputs).trace(module), path).forward
        yield
    finally:
        for name in vars(module).keys() - before.keys():  # tensors that the forward makes: fx keeps them in the module
            delattr(module, name)
        vars(module).update(before)
