"""Which layers each chunk of a pipeline holds (assign_layers of Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from ...errors import InputError


def assign_layers(layers: int, pipeline: int, virtual: int = 1, given: Sequence[int] | None = None) -> tuple[range, ...]:
    """Cut ``layers`` into ``pipeline`` x ``virtual`` chunks in the order of the model; chunk i runs on rank i mod ``pipeline``.

    Balanced: every chunk has the whole part of layers / chunks, and what is left over goes one each to the first chunks, as the
    last one has the head and the loss besides. A single chunk may be without layers.

    Args:
        layers: repeated blocks of the model.
        pipeline: pipeline ranks.
        virtual: chunks per rank (Narayanan et al. 2021, section 2.2).
        given: layers of each chunk instead.

    Raises:
        InputError: fewer layers than chunks, or ``given`` has another length, an empty chunk or another sum.
    """
    chunks = pipeline * virtual
    if chunks > max(layers, 1):
        how = f" x {virtual} virtual stages" if virtual > 1 else ""
        raise InputError(f"{layers} layers cannot fill {pipeline} pipeline ranks{how}; take {max(layers, 1)} chunks or fewer")
    if given is None:
        whole, left = divmod(layers, chunks)
        sizes = [whole + (chunk < left) for chunk in range(chunks)]
    else:
        sizes = list(given)
        listed = ", ".join(map(str, sizes))
        if len(sizes) != chunks:
            raise InputError(f"layers per stage are given for {len(sizes)} stages ({listed}) of {chunks}; give one number each")
        if min(sizes) < min(layers, 1) or sum(sizes) != layers:
            raise InputError(f"layers per stage ({listed}) sum to {sum(sizes)}; give {layers} in all, and one or more to each")
    return tuple(range(start, stop) for start, stop in pairwise(accumulate(sizes, initial=0)))
