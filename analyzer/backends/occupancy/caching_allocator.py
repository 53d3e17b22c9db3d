"""What torch's CUDA caching allocator takes from the device for a series of requests; no device is needed.

It asks the device for whole segments, cuts blocks from them and keeps what is given back, so a device's used memory is what the
process once reserved. Sizes are those of CUDACachingAllocator.cpp in torch 2 with its default settings.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

_MIB = 2**20
_ROUND = 512
_SMALL = _MIB  # up to here from segments of _SMALL_SEGMENT
_SMALL_SEGMENT = 2 * _MIB
_LARGE = 10 * _MIB  # from here segments as large as the request, in multiples of _STEP; below of _LARGE_SEGMENT
_LARGE_SEGMENT = 20 * _MIB
_STEP = 2 * _MIB


@dataclass(eq=False)
class MemoryBlock:
    """A piece of a segment and its neighbours there; ``used`` is the rounded size of the request, 0 where it is free."""

    size: int
    small: bool
    number: int
    used: int = 0
    before: MemoryBlock | None = None
    after: MemoryBlock | None = None


class CachingAllocator:
    """Counts bytes, best fit first.

    Attributes:
        reserved: bytes of all segments.
        most_live: the most bytes in use at once.
    """

    def __init__(self) -> None:
        self.reserved = self.most_live = self._live = self._blocks = 0
        self._free: dict[bool, list[tuple[int, int, MemoryBlock]]] = {True: [], False: []}

    def take(self, size: float) -> MemoryBlock:
        """Take a block of ``size`` bytes."""
        rounded = max(-(-int(size) // _ROUND), 1) * _ROUND
        small = rounded <= _SMALL
        free = self._free[small]
        place = bisect_left(free, rounded, key=lambda entry: entry[0])
        if place < len(free):
            block = free.pop(place)[2]
        else:
            exact = -(-rounded // _STEP) * _STEP
            block = self._block(_SMALL_SEGMENT if small else _LARGE_SEGMENT if rounded < _LARGE else exact, small)
            self.reserved += block.size
        rest = block.size - rounded
        if rest >= _ROUND if small else rest > _SMALL:
            other = self._block(rest, small)
            other.before, other.after = block, block.after
            if block.after:
                block.after.before = other
            block.after, block.size = other, rounded
            insort(free, (rest, other.number, other))
        block.used = rounded
        self._live += rounded
        self.most_live = max(self.most_live, self._live)
        return block

    def give(self, block: MemoryBlock) -> None:
        """Give a block back; free neighbours become one."""
        self._live -= block.used
        block.used = 0
        free = self._free[block.small]
        for other in (block.after, block.before):
            if other and not other.used:
                free.pop(bisect_left(free, (other.size, other.number)))
                first, second = (block, other) if other is block.after else (other, block)
                first.size, first.after = first.size + second.size, second.after
                if second.after:
                    second.after.before = first
                block = first
        insort(free, (block.size, block.number, block))

    def _block(self, size: int, small: bool) -> MemoryBlock:
        self._blocks += 1
        return MemoryBlock(size, small, self._blocks)
