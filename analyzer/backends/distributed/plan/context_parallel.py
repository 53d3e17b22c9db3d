"""Context parallelism: each rank has a part of the sequence, and gathers keys and values of the whole for attention.

As Llama 3 was trained (Grattafiori et al. 2024, section 3.3.2): the ranks all-gather keys and values, and take parts from both
ends of the sequence, so that a causal mask leaves each as much work.
"""

from __future__ import annotations

from dataclasses import replace
from operator import mul

from epochcast.analyzer.backends.distributed.models.graph import Graph, ModelBlock, Operator, Tensor
from epochcast.analyzer.errors import InputError

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
