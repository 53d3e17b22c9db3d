"""The occupancy calculation: cases worked out by hand, and whole tables against SMs filled block by block."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_launches import Launch, occupancy, table_of

from epochcast.analyzer.backends.occupancy.modelled_kernels.occupancy import (
    GpuLimits,
    limits_by_capability,
    limits_of,
)
from epochcast.regressor import load_catalog
from lab.kernels.occupancies import RESOURCES, occupancies

GPUS = [limits_of(gpu) for gpu in load_catalog().values() if gpu.vendor == "NVIDIA"]
H100 = limits_by_capability("H100", 9.0, 132)
A100 = limits_by_capability("A100", 8.0, 108)
V100 = limits_by_capability("V100", 7.0, 80)
P100 = limits_by_capability("P100", 6.0, 56)
P40 = limits_by_capability("P40", 6.1, 30)


@pytest.mark.parametrize(
    ("gpu", "launch", "fits", "grid", "active", "limit", "limiter"),
    [
        # 384 threads are 12 warps: 64 // 12 = 5 blocks. 168 x 32 = 5376 registers per warp, a multiple of 256; a quarter of
        # 65536 holds 3 such warps, an SM 12: 1 block. 231424 + 1024 = 232448 bytes, a multiple of 128; 233472 hold 1.
        # 56 x 2 = 112 blocks on 132 SMs: 112 / 132 x 12 / 64.
        (H100, Launch((56, 2, 1), (384, 1, 1), 168, 231_424), (5, 1, 1, 32), 112 / 132 * 12 / 64, 12 / 64, 12 / 64, "grid"),
        # 4 warps: 16 blocks. 96 x 32 = 3072 registers per warp: 5 in a quarter, 20 in an SM: 5 blocks. 98304 + 1024 = 99328
        # bytes: 167936 hold 1. 192 blocks on 108 SMs are more than one each: 1 x 4 / 64.
        (A100, Launch((64, 1, 3), (128, 1, 1), 96, 98_304), (16, 5, 1, 32), 4 / 64, 4 / 64, 4 / 64, "shared_memory"),
        # 33 x 32 = 1056 registers, rounded up to 1280: 12 warps in a quarter, 48: one block of 32 warps, half of the SM.
        (V100, Launch((80, 1, 1), (1024, 1, 1), 33, 0), (2, 1, math.inf, 32), 0.5, 0.5, 0.5, "registers"),
        # Blocks of one warp: 64 would fit by warps, an SM takes 32.
        (V100, Launch((80, 100, 1), (8, 4, 1), 16, 0), (64, 128, math.inf, 32), 0.5, 0.5, 0.5, "blocks"),
        # Two partitions of 32768 registers: 5 warps of 6400 in each, 10 in all: 5 blocks of 2 warps…
        (P100, Launch((560, 1, 1), (64, 1, 1), 200, 0), (32, 5, math.inf, 32), 10 / 64, 10 / 64, 10 / 64, "registers"),
        # …where four partitions of 16384 hold 2 each: 4 blocks.
        (P40, Launch((560, 1, 1), (64, 1, 1), 200, 0), (32, 4, math.inf, 32), 8 / 64, 8 / 64, 8 / 64, "registers"),
    ],
)
def test_cases_worked_out_by_hand(
    gpu: GpuLimits, launch: Launch, fits: tuple[float, ...], grid: float, active: float, limit: float, limiter: str
) -> None:
    result = occupancy(launch, gpu)
    assert result.resident_blocks == min(fits)
    assert (result.grid, result.active, result.limit) == pytest.approx((grid, active, limit))
    assert result.limiter == limiter


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
