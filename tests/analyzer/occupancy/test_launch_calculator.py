"""The occupancy calculation: whole tables against SMs filled block by block."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_launches import Launch, table_of

from epochcast.analyzer.backends.occupancy.modelled_kernels.occupancy import (
    GpuLimits,
    limits_of,
)
from epochcast.regressor import load_catalog
from lab.kernels.occupancies import RESOURCES, occupancies

GPUS = [limits_of(gpu) for gpu in load_catalog().values() if gpu.vendor == "NVIDIA"]


def _filled_block_by_block(launch: Launch, gpu: GpuLimits) -> dict[str, Any] | None:
    """By putting blocks on SMs one after the other for as long as everything that they need is left; None: none can be put."""
    blocks, threads = math.prod(launch.grid), math.prod(launch.block)
    warps = math.ceil(threads / 32)
    per_warp = math.ceil(launch.registers_per_thread * 32 / 256) * 256
    if min(*launch.grid, *launch.block) < 1 or threads > 1024 or not 0 <= launch.registers_per_thread <= 255:
        return None
    if per_warp * 4 * math.ceil(warps / 4) > gpu.registers_per_block:
        return None
    if not 0 <= launch.shared_memory <= gpu.shared_memory_per_block:
        return None
    warp_slots = gpu.registers // gpu.register_partitions // per_warp * gpu.register_partitions if per_warp else 10**9
    shared = math.ceil((launch.shared_memory + gpu.reserved_per_block) / gpu.shared_memory_unit) * gpu.shared_memory_unit
    needed = {"warps": warps, "registers": warps, "shared_memory": shared, "blocks": 1}
    left = {"warps": gpu.max_warps, "registers": warp_slots, "shared_memory": gpu.shared_memory, "blocks": gpu.max_blocks}
    on_one = 0
    while all(left[resource] >= needed[resource] for resource in RESOURCES):
        on_one += 1
        left = {resource: left[resource] - needed[resource] for resource in RESOURCES}
    if on_one == 0:
        return None
    at_once = on_one * gpu.sm_count
    sms = [0] * gpu.sm_count
    for block in range(min(blocks, at_once)):
        sms[block % gpu.sm_count] += 1
    share = warps / gpu.max_warps
    return {
        "grid": sum(sms) / len(sms) * share,
        "active": max(sms) * share,
        "limit": on_one * share,
        "resident_blocks": on_one,
        "tail_efficiency": blocks / (math.ceil(blocks / at_once) * at_once),
        "limiter": "grid" if blocks < at_once else next(name for name in RESOURCES if left[name] < needed[name]),
    }


small_launches = st.builds(
    Launch,
    grid=st.tuples(st.integers(1, 400), st.integers(1, 4), st.integers(1, 3)),
    block=st.tuples(st.integers(1, 256), st.sampled_from([1, 2, 4]), st.just(1)),
    registers_per_thread=st.integers(0, 64),
    shared_memory=st.integers(0, 48 * 1024),
)


any_size = st.one_of(st.integers(-1, 3), st.integers(1, 1100), st.sampled_from([65_535, 2**31 - 1]))
any_launches = st.builds(
    Launch,
    grid=st.tuples(any_size, any_size, any_size),
    block=st.tuples(any_size, st.integers(0, 5), st.integers(1, 2)),
    registers_per_thread=st.integers(-1, 300),
    shared_memory=st.one_of(st.integers(-1, 300_000), st.sampled_from([0, 48 * 1024, 99 * 1024, 100 * 1024, 2**40])),
)


@settings(max_examples=100, deadline=None)
@given(launches=st.lists(any_launches | small_launches, max_size=20), gpu=st.sampled_from(GPUS))
def test_agrees_with_sms_filled_block_by_block(launches: list[Launch], gpu: GpuLimits) -> None:
    rows = occupancies(table_of(launches), gpu)
    for launch, row in zip(launches, rows.to_dict("records"), strict=True):
        expected = _filled_block_by_block(launch, gpu)
        if expected is None:
            assert all(value != value for value in row.values())
            continue
        assert row.pop("limiter") == expected.pop("limiter")
        assert row == pytest.approx(expected, rel=1e-12)
        assert 0 < row["grid"] <= row["active"] <= row["limit"] <= 1
        assert 0 < row["tail_efficiency"] <= 1
