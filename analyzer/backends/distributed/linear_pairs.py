"""Pairs of linear layers that tensor parallelism can split without a plan, found in the data flow of their parent.

Between a layer split by columns and one split by rows there may be only element-wise work (Shoeybi et al. 2019, section 3:
the two products of a multi-layer perceptron). Attention is not found: how its heads lie in a layer cannot be seen.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

_MODULES = (
    *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh, nn.Sigmoid, nn.Softplus),
    *(nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.Dropout, nn.Identity),
)
_FUNCTIONS = {
    *(functional.relu, functional.relu6, functional.leaky_relu, functional.elu, functional.selu, functional.gelu),
    *(functional.silu, functional.mish, functional.tanh, functional.sigmoid, functional.softplus, functional.hardswish),
    *(functional.dropout, torch.relu, torch.tanh, torch.sigmoid, torch.mul, torch.add, torch.square, torch.pow, torch.sqrt),
    *(torch.exp, operator.mul, operator.add, operator.sub, operator.pow, operator.neg),
}
_METHODS = {"relu", "tanh", "sigmoid", "mul", "add", "sub", "pow", "square", "neg", "float", "to", "type_as", "contiguous"}


def linear_pairs(model: nn.Module) -> dict[str, str]:
    """``column`` and ``row`` by path of the linear layers of ``model`` that form such pairs; gated layers form triples."""
    rules: dict[str, str] = {}
    for path, parent in model.named_modules():
        linear = {name for name, child in parent.named_children() if isinstance(child, nn.Linear)}
        if len(linear) > 1 and (graph := _traced(parent)) is not None:
            rules |= {f"{path}.{name}" if path else name: rule for name, rule in _pairs(graph, parent).items()}
    return rules


class _ChildrenAreLeaves(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


def _traced(parent: nn.Module) -> fx.Graph | None:
    """The parent's own data flow; None where it depends on values."""
    try:
        return _ChildrenAreLeaves().trace(parent)
    except Exception:  # a user's forward may fail in any way on stand-ins for tensors; then its layers stay whole
        return None


def _pairs(graph: fx.Graph, parent: nn.Module) -> Mapping[str, str]:
    calls: dict[str, list[fx.Node]] = {}
    for node in graph.nodes:
        if node.op == "call_module" and isinstance(parent.get_submodule(str(node.target)), nn.Linear):
            calls.setdefault(str(node.target), []).append(node)
    once = {name: nodes[0] for name, nodes in calls.items() if len(nodes) == 1}
    rules: dict[str, str] = {}
    for name, node in once.items():
        columns, between = _sources(node, parent)
        if not columns or any(str(column.target) not in once or str(column.target) in rules for column in columns):
            continue
        inside = {node, *between}
        if all(user in inside for source in (*columns, *between) for user in source.users):
            rules |= {str(column.target): "column" for column in columns} | {name: "row"}
    return rules


def _sources(row: fx.Node, parent: nn.Module) -> tuple[set[fx.Node], set[fx.Node]]:
    """The linear layers that feed ``row`` through element-wise work alone, and that work; none if anything else feeds it."""
    columns: set[fx.Node] = set()
    between: set[fx.Node] = set()
    waiting = list(row.all_input_nodes)
    while waiting:
        node = waiting.pop()
        if node.op == "call_module" and isinstance(parent.get_submodule(str(node.target)), nn.Linear):
            columns.add(node)
        elif _elementwise(node, parent):
            if node not in between:
                between.add(node)
                waiting += node.all_input_nodes
        else:
            return set(), set()
    return columns, between


def _elementwise(node: fx.Node, parent: nn.Module) -> bool:
    target: Any = node.target
    if node.op == "call_module":
        return isinstance(parent.get_submodule(str(target)), _MODULES)
    return (node.op == "call_function" and target in _FUNCTIONS) or (node.op == "call_method" and target in _METHODS)
