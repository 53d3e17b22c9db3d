"""How much memory traffic is left when neighbouring one-pass operators run as one kernel.

Megatron's fused kernels (bias and GELU; bias, dropout and addition; scale, mask and softmax) and torch.compile read each input
of a chain once and write only what somebody outside the chain needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ..reader.aten_operators import Kind
from .graph import Phase

_CHAINS: frozenset[Kind] = frozenset({"elementwise", "softmax"})


@dataclass(frozen=True)
class Traffic:
    """What one recorded operator reads and writes: (storage, bytes) of each tensor, and elements of its largest output."""

    kind: Kind
    phase: Phase
    reads: tuple[tuple[int, int], ...]
    writes: tuple[tuple[int, int], ...]
    elements: int


def fused_bytes(operators: Sequence[Traffic]) -> list[float]:
    """Bytes of each operator, shape (n,): those of a whole chain at its first operator and 0 at its others.

    An operator joins the chain of a tensor that it reads if both take one pass over as many elements. A chain stays within the
    order of running, forward or backward; what backward reads of a forward chain is written.
    """
    chain_of_storage: dict[int, int] = {}
    chains: list[int] = []  # index of the first operator of each operator's chain
    readers: dict[int, set[int]] = defaultdict(set)  # storage -> chains that read it
    for index, operator in enumerate(operators):
        chain = index
        if operator.kind in _CHAINS:
            for storage, _ in operator.reads:
                first = chain_of_storage.get(storage)
                if first is None or operators[first].phase != operator.phase:
                    continue
                if operators[first].elements == operator.elements:
                    chain = first
                    break
        chains.append(chain)
        for storage, _ in operator.reads:
            readers[storage].add(chain)
        for storage, _ in operator.writes:
            if operator.kind in _CHAINS:
                chain_of_storage[storage] = chain
            else:
                chain_of_storage.pop(storage, None)
    made: dict[int, dict[int, int]] = defaultdict(dict)
    taken: dict[int, dict[int, int]] = defaultdict(dict)
    for operator, chain in zip(operators, chains, strict=True):
        for storage, size in operator.reads:
            if storage not in made[chain]:
                taken[chain][storage] = max(size, taken[chain].get(storage, 0))
        made[chain].update(operator.writes)
    answer = [0.0] * len(operators)
    for chain in set(chains):
        # Nobody reads the last tensor of a graph, the loss or a gradient; it is written all the same.
        left = {storage: size for storage, size in made[chain].items() if readers[storage] != {chain}}
        answer[chain] = float(sum(taken[chain].values()) + sum(left.values()))
    return answer
