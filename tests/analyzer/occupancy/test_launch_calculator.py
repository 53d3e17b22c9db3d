"""The occupancy calculation: cases worked out by hand, and whole tables against SMs filled block by block."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_launches import Launch, occupancy, table_of

from epochcast.analyzer.backends.occupancy.launch.calculator import CONFIGURATION, RESOURCES, occupancies
from epochcast.analyzer.backends.occupancy.launch.gpu_limits import GpuLimits, limits_by_capability, limits_of
from epochcast.regressor import load_catalog

GPUS = [limits_of(gpu) for gpu in load_catalog().values() if gpu.vendor == "NVIDIA"]
H100 = limits_by_capability("H100", 9.0, 132)
A100 = limits_by_capability("A100", 8.0, 108)
V100 = limits_by_capability("V100", 7.0, 80)


@pytest.mark.parametrize(
    ("gpu", "launch", "fits", "grid", "active", "limit", "limiter"),
    [
        pytest.param(
            # 384 threads are 12 warps: 64 // 12 = 5 blocks. 168 x 32 = 5376 registers per warp, a multiple of 256; a quarter of
            # 65536 holds 3 such warps, an SM 12: 1 block. 231424 + 1024 = 232448 bytes, a multiple of 128; 233472 hold 1.
            # 56 x 2 = 112 blocks on 132 SMs: 112 / 132 x 12 / 64.
            H100,
            Launch((56, 2, 1), (384, 1, 1), 168, 231_424),
            (5, 1, 1, 32),
            112 / 132 * 12 / 64,
            12 / 64,
            12 / 64,
            "grid",
            id="h100-gemm",
        ),
        pytest.param(
            # 4 warps: 16 blocks. 96 x 32 = 3072 registers per warp: 5 in a quarter, 20 in an SM: 5 blocks. 98304 + 1024 = 99328
            # bytes: 167936 hold 1. 192 blocks on 108 SMs are more than one each: 1 x 4 / 64.
            A100,
            Launch((64, 1, 3), (128, 1, 1), 96, 98_304),
            (16, 5, 1, 32),
            4 / 64,
            4 / 64,
            4 / 64,
            "shared_memory",
            id="a100-gemm",
        ),
        pytest.param(
            # 4 warps: 16 blocks. 20 x 32 = 640 registers, rounded up to 768: 21 warps in a quarter, 84: 21 blocks. 1024 bytes
            # reserved: 164 blocks. 8 blocks on 108 SMs: 8 / 108 x 4 / 64 = 0.46 %, which Kineto rounds to 0.
            A100,
            Launch((8, 1, 1), (128, 1, 1), 20, 0),
            (16, 21, 164, 32),
            8 / 108 * 4 / 64,
            4 / 64,
            1.0,
            "grid",
            id="a100-tiny-grid",
        ),
        pytest.param(
            # 33 x 32 = 1056 registers, rounded up to 1280: 12 warps in a quarter, 48: one block of 32 warps, half of the SM.
            V100,
            Launch((80, 1, 1), (1024, 1, 1), 33, 0),
            (2, 1, math.inf, 32),
            0.5,
            0.5,
            0.5,
            "registers",
            id="v100-one-register-too-many",
        ),
        pytest.param(
            # Blocks of one warp: 64 would fit by warps, an SM takes 32.
            V100,
            Launch((80, 100, 1), (8, 4, 1), 16, 0),
            (64, 128, math.inf, 32),
            0.5,
            0.5,
            0.5,
            "blocks",
            id="v100-small-blocks",
        ),
        pytest.param(
            # 48 warps of an SM: one block of 32; a second does not fit.
            limits_by_capability("RTX 3090", 8.6, 82),
            Launch((1000, 1, 1), (1024, 1, 1), 32, 0),
            (1, 2, 100, 16),
            32 / 48,
            32 / 48,
            32 / 48,
            "warps",
            id="ga102-large-blocks",
        ),
        pytest.param(
            # Two partitions of 32768 registers: 5 warps of 6400 in each, 10 in all: 5 blocks of 2 warps…
            limits_by_capability("P100", 6.0, 56),
            Launch((560, 1, 1), (64, 1, 1), 200, 0),
            (32, 5, math.inf, 32),
            10 / 64,
            10 / 64,
            10 / 64,
            "registers",
            id="p100-two-partitions",
        ),
        pytest.param(
            # …where four partitions of 16384 hold 2 each: 4 blocks.
            limits_by_capability("P40", 6.1, 30),
            Launch((560, 1, 1), (64, 1, 1), 200, 0),
            (32, 4, math.inf, 32),
            8 / 64,
            8 / 64,
            8 / 64,
            "registers",
            id="p40-four-partitions",
        ),
        pytest.param(
            # Kepler's second chip has twice the registers: 64 x 32 = 2048 per warp, 16 in a quarter, 64: full.
            limits_by_capability("K80", 3.7, 13),
            Launch((130, 1, 1), (256, 1, 1), 64, 0),
            (8, 8, math.inf, 16),
            1.0,
            1.0,
            1.0,
            "warps",
            id="k80-registers",
        ),
    ],
)
def test_cases_worked_out_by_hand(
    gpu: GpuLimits, launch: Launch, fits: tuple[float, ...], grid: float, active: float, limit: float, limiter: str
) -> None:
    result = occupancy(launch, gpu)
    assert result.resident_blocks == min(fits)
    assert (result.grid, result.active, result.limit) == pytest.approx((grid, active, limit))
    assert result.limiter == limiter


@pytest.mark.parametrize(("blocks", "tail"), [(264, 1.0), (265, 265 / 528), (66, 0.25), (2640, 1.0)])
def test_a_last_wave_that_is_partly_filled(blocks: int, tail: float) -> None:
    """132 SMs that hold two blocks of 32 warps each: 264 at once."""
    result = occupancy(Launch((blocks, 1, 1), (1024, 1, 1), 32, 0), H100)
    assert result.tail_efficiency == pytest.approx(tail)


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


@pytest.mark.parametrize(
    ("gpu", "launch"),
    [
        (H100, Launch((1, 1, 1), (1025, 1, 1), 32, 0)),
        (H100, Launch((0, 1, 1), (32, 1, 1), 32, 0)),
        (H100, Launch((1, 1, 1), (32, 0, 1), 32, 0)),
        (H100, Launch((1, 1, 1), (32, 1, 1), 256, 0)),
        (H100, Launch((1, 1, 1), (1024, 1, 1), 72, 0)),  # 2304 registers per warp: 73728
        (H100, Launch((1, 1, 1), (32, 1, 1), 32, 232_449)),
        (V100, Launch((1, 1, 1), (32, 1, 1), 32, 98_305)),
        # 9 warps of 6400 registers are fewer than 65536, but the check counts 12.
        (limits_by_capability("P100", 6.0, 56), Launch((1, 1, 1), (288, 1, 1), 200, 0)),
        # What is left of a GPU by its own figures holds no block.
        (limits_by_capability("part", 8.0, 14, max_warps=4), Launch((1, 1, 1), (160, 1, 1), 32, 0)),
        (limits_by_capability("part", 8.0, 14, registers=4096), Launch((1, 1, 1), (32, 1, 1), 64, 0)),
        (limits_by_capability("part", 8.0, 14, shared_memory=2048), Launch((1, 1, 1), (32, 1, 1), 32, 1025)),
    ],
)
def test_what_a_gpu_cannot_run_has_no_occupancy(gpu: GpuLimits, launch: Launch) -> None:
    assert occupancy(launch, gpu).isna().all()


def test_a_missing_figure_gives_no_occupancy() -> None:
    table = table_of([Launch((10, 1, 1), (128, 1, 1), 32, 0)] * len(CONFIGURATION))
    for row, name in enumerate(CONFIGURATION):
        table.loc[row, name] = np.nan
    assert occupancies(table, H100).isna().all(axis=None)


def test_the_limiter_is_what_gives_a_block_more_when_there_is_more_of_it() -> None:
    """Twice as much of the limiting resource, and of nothing else, lets more blocks in."""
    changed = {"warps": "max_warps", "registers": "registers", "shared_memory": "shared_memory", "blocks": "max_blocks"}
    launches = {
        "warps": Launch((9999, 1, 1), (640, 1, 1), 16, 0),
        "registers": Launch((9999, 1, 1), (256, 1, 1), 128, 0),
        "shared_memory": Launch((9999, 1, 1), (128, 1, 1), 32, 60_000),
        "blocks": Launch((9999, 1, 1), (32, 1, 1), 16, 0),
    }
    assert set(launches) == set(RESOURCES)
    for limiter, launch in launches.items():
        before = occupancy(launch, H100)
        assert before.limiter == limiter
        for resource, figure in changed.items():
            more = GpuLimits(**{**vars(H100), figure: 2 * getattr(H100, figure)})
            after = occupancy(launch, more).resident_blocks
            assert (after > before.resident_blocks) == (resource == limiter)
