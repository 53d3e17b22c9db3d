"""torch's caching allocator, counted: segments, blocks and what is used again."""

import pytest

from epochcast.analyzer.backends.occupancy.caching_allocator import CachingAllocator

MIB = 2**20


@pytest.mark.parametrize(
    ("sizes", "reserved"),
    [
        ([1], 2),
        ([MIB, MIB], 2),
        ([MIB, MIB, 1], 4),
        ([MIB + 1], 20),
        ([5 * MIB] * 4, 20),
        ([5 * MIB] * 5, 40),
        ([11 * MIB], 12),
        ([10 * MIB, 5 * MIB], 30),
    ],
)
def test_requests_come_from_segments_of_their_size(sizes, reserved):
    memory = CachingAllocator()
    for size in sizes:
        memory.take(size)
    assert memory.reserved == reserved * MIB


def test_the_tightest_free_block_is_used_again():
    memory = CachingAllocator()
    wide, tight = memory.take(64 * MIB), memory.take(32 * MIB)
    memory.give(wide)
    memory.give(tight)
    memory.take(30 * MIB)
    memory.take(64 * MIB)
    assert memory.reserved == 96 * MIB
    assert memory.most_live == 96 * MIB


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_free_neighbours_become_one_block(order):
    memory = CachingAllocator()
    blocks = [memory.take(5 * MIB) for _ in range(4)]
    for place in order:
        memory.give(blocks[place])
    memory.take(9 * MIB)
    assert memory.reserved == 20 * MIB
