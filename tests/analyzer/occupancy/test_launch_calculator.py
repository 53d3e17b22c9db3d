"""The occupancy calculation: cases worked out by hand, SMs filled block by block, and one row against a whole table."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.analyzer.backends.occupancy.launch.calculator import (
    CONFIGURATION,
    RESOURCES,
    RESULTS,
    Launch,
    occupancies,
    occupancy,
)
from epochcast.analyzer.backends.occupancy.launch.gpu_limits import GpuLimits, limits_by_capability, limits_of
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

GPUS = [limits_of(gpu) for gpu in load_catalog().values() if gpu.vendor == "NVIDIA"]
H100 = limits_by_capability("H100", 9.0, 132)
A100 = limits_by_capability("A100", 8.0, 108)
V100 = limits_by_capability("V100", 7.0, 80)


def _table(launches: list[Launch]) -> pd.DataFrame:
    return pd.DataFrame(
        [[*one.grid, *one.block, one.registers_per_thread, one.shared_memory] for one in launches],
        columns=list(CONFIGURATION),
        dtype=float,
    )


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
    found = occupancy(launch, gpu)
    by = (found.blocks_by_warps, found.blocks_by_registers, found.blocks_by_shared_memory, found.blocks_by_blocks)
    assert by == fits
    assert found.resident_blocks == min(fits)
    assert (found.grid, found.active, found.limit) == pytest.approx((grid, active, limit))
    assert found.limiter == limiter


@pytest.mark.parametrize(
    ("blocks", "waves", "tail"), [(264, 1.0, 1.0), (265, 265 / 264, 265 / 528), (66, 0.25, 0.25), (2640, 10.0, 1.0)]
)
def test_waves_and_the_partly_filled_last_one(blocks: int, waves: float, tail: float) -> None:
    """132 SMs that hold two blocks of 32 warps each: 264 at once."""
    found = occupancy(Launch((blocks, 1, 1), (1024, 1, 1), 32, 0), H100)
    assert (found.waves, found.tail_efficiency) == pytest.approx((waves, tail))


def _filled_block_by_block(launch: Launch, gpu: GpuLimits) -> tuple[float, float, float]:
    """The three ratios, by putting blocks on SMs one after the other for as long as everything that they need is left."""
    warps = math.ceil(math.prod(launch.block) / 32)
    per_warp = math.ceil(launch.registers_per_thread * 32 / 256) * 256
    warp_slots = gpu.registers // gpu.register_partitions // per_warp * gpu.register_partitions if per_warp else 10**9
    shared = math.ceil((launch.shared_memory + gpu.reserved_per_block) / gpu.shared_memory_unit) * gpu.shared_memory_unit
    on_one, left = 0, {"warps": gpu.max_warps, "slots": warp_slots, "bytes": gpu.shared_memory, "blocks": gpu.max_blocks}
    while left["warps"] >= warps and left["slots"] >= warps and left["bytes"] >= shared and left["blocks"] >= 1:
        on_one += 1
        left = {
            "warps": left["warps"] - warps,
            "slots": left["slots"] - warps,
            "bytes": left["bytes"] - shared,
            "blocks": left["blocks"] - 1,
        }
    sms = [0] * gpu.sm_count
    for block in range(min(math.prod(launch.grid), on_one * gpu.sm_count)):
        sms[block % gpu.sm_count] += 1
    share = warps / gpu.max_warps
    return sum(sms) / len(sms) * share, max(sms) * share, on_one * share


small_launches = st.builds(
    Launch,
    grid=st.tuples(st.integers(1, 400), st.integers(1, 4), st.integers(1, 3)),
    block=st.tuples(st.integers(1, 256), st.sampled_from([1, 2, 4]), st.just(1)),
    registers_per_thread=st.integers(0, 64),
    shared_memory=st.integers(0, 48 * 1024),
)


@settings(max_examples=100, deadline=None)
@given(launch=small_launches, gpu=st.sampled_from(GPUS))
def test_agrees_with_sms_filled_block_by_block(launch: Launch, gpu: GpuLimits) -> None:
    found = occupancy(launch, gpu)
    assert (found.grid, found.active, found.limit) == pytest.approx(_filled_block_by_block(launch, gpu))
    assert 0 < found.grid <= found.active <= found.limit <= 1
    assert 0 < found.tail_efficiency <= 1


any_size = st.one_of(st.integers(-1, 3), st.integers(1, 1100), st.sampled_from([65_535, 2**31 - 1]))
any_launches = st.builds(
    Launch,
    grid=st.tuples(any_size, any_size, any_size),
    block=st.tuples(any_size, st.integers(0, 5), st.integers(1, 2)),
    registers_per_thread=st.integers(-1, 300),
    shared_memory=st.one_of(st.integers(-1, 300_000), st.sampled_from([0, 48 * 1024, 99 * 1024, 100 * 1024, 2**40])),
)


@settings(max_examples=60, deadline=None)
@given(launches=st.lists(any_launches | small_launches, max_size=20), gpu=st.sampled_from(GPUS))
def test_a_table_holds_what_its_rows_give_alone(launches: list[Launch], gpu: GpuLimits) -> None:
    table = occupancies(_table(launches), gpu)
    assert list(table.columns) == list(RESULTS)
    for launch, row in zip(launches, table.to_dict("records"), strict=True):
        try:
            alone = occupancy(launch, gpu)
        except InputError:
            assert all(pd.isna(value) for value in row.values())
            continue
        assert row.pop("limiter") == alone.limiter
        for name, value in row.items():
            assert value == pytest.approx(getattr(alone, str(name)), rel=1e-12), name


@pytest.mark.parametrize(
    ("gpu", "launch", "says"),
    [
        (H100, Launch((1, 1, 1), (1025, 1, 1), 32, 0), "1025 threads per block are more than 1024"),
        (H100, Launch((0, 1, 1), (32, 1, 1), 32, 0), "is empty"),
        (H100, Launch((1, 1, 1), (32, 0, 1), 32, 0), "is empty"),
        (H100, Launch((1, 1, 1), (32, 1, 1), 256, 0), "256 registers per thread"),
        (H100, Launch((1, 1, 1), (1024, 1, 1), 72, 0), "need more than the 65536 of a block"),
        (H100, Launch((1, 1, 1), (32, 1, 1), 32, 232_449), "outside 0 to 232448 per block"),
        (V100, Launch((1, 1, 1), (32, 1, 1), 32, 98_305), "outside 0 to 98304 per block"),
        # 9 warps of 6400 registers are fewer than 65536, but the check counts 12.
        (limits_by_capability("P100", 6.0, 56), Launch((1, 1, 1), (288, 1, 1), 200, 0), "need more than the 65536 of a block"),
    ],
)
def test_what_a_gpu_cannot_run_is_refused_and_nan_in_a_table(gpu: GpuLimits, launch: Launch, says: str) -> None:
    with pytest.raises(InputError, match=says):
        occupancy(launch, gpu)
    assert occupancies(_table([launch]), gpu).iloc[0].isna().all()


def test_a_missing_figure_gives_no_occupancy() -> None:
    table = _table([Launch((10, 1, 1), (128, 1, 1), 32, 0)] * len(CONFIGURATION))
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
