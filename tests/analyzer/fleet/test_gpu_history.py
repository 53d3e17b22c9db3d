"""One trace: its stretches of work, epochs, idle time and quality, whether it is read whole or in pieces."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet import gpu_history, span_finding, trace_rows
from epochcast.analyzer.fleet.finding import Finding, finding_json, read_finding
from epochcast.analyzer.fleet.gpu_history import Looking, finding_of
from epochcast.analyzer.fleet.stretches import ActivityBins, worked
from epochcast.analyzer.fleet.trace_rows import TraceRows
from epochcast.analyzer.telemetry.gpu_report import GpuDevice
from epochcast.detector import Detection, detect
from epochcast.regressor import load_catalog

from .conftest import square_wave

CATALOG = load_catalog()
DEVICE = GpuDevice("GPU-1", "0", "Tesla V100-SXM2-16GB", "node-1", source="gpm")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """The times of the first and the last row of all that the detector is shown [unix s]."""
    shown: list[tuple[float, float]] = []

    def watched(time: np.ndarray[Any, Any], *given: Any) -> Detection:
        shown.append((float(time[0]), float(time[-1])))
        return detect(time, *given)

    monkeypatch.setattr(span_finding, "detect", watched)
    return shown


def look(path: Path, looking: Looking | None = None, device: GpuDevice = DEVICE) -> Finding:
    with path.open("rb") as file:
        found = finding_of(path.name, "v1", device, TraceRows(file, path.name), looking or Looking(CATALOG))
    return replace(found, cpu_s=0.0)


def test_a_job_is_found_with_its_epochs_and_its_idle_time(tmp_path: Path, write_gpu: Callable[..., Path]) -> None:
    found = look(write_gpu(tmp_path / "a.parquet"))
    assert found.idle_s == pytest.approx(20, abs=3)
    (span,) = found.spans
    assert (span.start, span.end) == (pytest.approx(1_700_000_010, abs=1), pytest.approx(1_700_000_110, abs=1))
    assert span.report.detection.verdict == "epochs"
    assert span.report.detection.period_s == pytest.approx(12, rel=0.05)
    assert span.report.job_since == span.start
    assert span.report.profile is not None
    assert span.report.profile.epoch_s == pytest.approx(12, rel=0.05)
    assert span.memory_bytes == 8e9
    assert span.energy_j == pytest.approx(100 * (60 + 300 * 0.7), rel=0.05)
    assert span.busy_ratio == pytest.approx(1.1 * 0.7, rel=0.05)
    assert found.quality.hertz == pytest.approx(5)
    assert found.quality.missing_ratio == 0


def test_a_gpu_that_is_held_but_idle_is_counted_also_outside_its_jobs(tmp_path: Path) -> None:
    """Idle for 10 s, at work for 100 s with a rest of 2 s in the 50th, and idle for 10 s, all with 8 GB in use."""
    frame = square_wave(120, 12).assign(memory_used=8e9)
    frame.loc[(frame.time > 1_700_000_060) & (frame.time <= 1_700_000_062), "gr_engine_active"] = 0.0
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "a.parquet")
    found = look(tmp_path / "a.parquet")
    (span,) = found.spans
    assert span.report.profile is not None and span.report.profile.held_idle_s == pytest.approx(2, abs=0.01)
    assert found.held_idle_s == pytest.approx(10 + 2 + 10, abs=0.5)
    assert read_finding(finding_json(found)) == found
    for name, column in (("without memory", {"memory_used": np.nan}), ("free", {"memory_used": 0.5e9})):
        pq.write_table(pa.Table.from_pandas(frame.assign(**column)), tmp_path / "b.parquet")
        assert look(tmp_path / "b.parquet").held_idle_s == (None if name == "without memory" else 0.0), name


def test_every_format_and_every_portion_gives_the_same(
    tmp_path: Path, write_gpu: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = look(write_gpu(tmp_path / "a.parquet"))
    text = write_gpu(tmp_path / "a.csv")
    assert [replace(one, trace="a.parquet") for one in look(text).spans] == list(whole.spans)
    monkeypatch.setattr(trace_rows, "_HELD_VALUES", 0)
    monkeypatch.setattr(trace_rows, "_PIECE_ROWS", 97)
    pq.write_table(pq.read_table(tmp_path / "a.parquet"), tmp_path / "b.parquet", row_group_size=61)
    again = look(tmp_path / "b.parquet")
    spans = tuple(replace(one, trace="a.parquet") for one in again.spans)
    assert replace(again, trace="a.parquet", spans=spans) == whole


def test_jobs_one_after_the_other_are_told_apart_and_a_weak_one_beside_a_strong_one_is_seen(tmp_path: Path) -> None:
    strong, weak = square_wave(150, 15), square_wave(150, 10)
    weak[["gr_engine_active", "dram_active"]] *= 0.06
    weak["time"] += 160
    later = square_wave(150, 20)
    later["time"] += 900
    frame = pd.concat([strong, weak, later], ignore_index=True)
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "a.parquet")
    found = look(tmp_path / "a.parquet")
    assert [round(span.start - 1_700_000_000) for span in found.spans] == [10, 170, 910]
    assert [span.report.detection.period_s for span in found.spans] == [
        pytest.approx(period, rel=0.05) for period in (15, 10, 20)
    ]
    assert found.idle_s == pytest.approx(60, abs=10)  # the hole of ten minutes is not idle time
    assert any("hole" in problem for problem in found.quality.problems)
    assert found.quality.longest_hole_s == pytest.approx(590, abs=1)


def test_an_idle_gpu_has_no_job(tmp_path: Path) -> None:
    frame = square_wave(120, 12)
    frame[["gr_engine_active", "dram_active"]] = 0.0005
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "a.parquet")
    found = look(tmp_path / "a.parquet")
    assert found.spans == ()
    assert found.idle_s == pytest.approx(120, abs=1)


def test_without_a_metric_of_activity_nothing_is_said_of_idleness(tmp_path: Path) -> None:
    frame = square_wave(120, 12)[["time", "memory_used"]]
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "a.parquet")
    found = look(tmp_path / "a.parquet")
    assert found.idle_s is None
    assert any("gr_engine_active" in problem for problem in found.quality.problems)


def test_a_clock_that_was_set_back_leaves_rows_out_and_says_so(tmp_path: Path) -> None:
    frame = square_wave(120, 12)
    back = pd.concat([frame.iloc[:300], frame.iloc[250:]], ignore_index=True)
    pq.write_table(pa.Table.from_pandas(back), tmp_path / "a.parquet")
    found = look(tmp_path / "a.parquet")
    assert any("set back, by 9.8 s" in problem and "50 rows" in problem for problem in found.quality.problems)
    assert found.quality.rows == 600


def test_a_job_that_had_begun_before_loses_its_first_epoch(tmp_path: Path) -> None:
    frame = square_wave(240, 20, begins=0)
    frame = frame[frame["time"] >= 1_700_000_007].reset_index(drop=True)
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "a.parquet")
    (span,) = look(tmp_path / "a.parquet").spans
    assert span.epochs
    assert span.epochs[0].start >= 1_700_000_018


@pytest.mark.parametrize(("row_s", "rests_s", "loses"), [(0.2, 3, True), (0.2, 4, False), (5, 10, True), (5, 15, False)])
def test_a_job_that_rests_for_hardly_two_bins_of_its_first_rows_may_have_begun_before_them(
    tmp_path: Path, row_s: float, rests_s: float, loses: bool
) -> None:
    """A bin is a second, or as long as rows are apart; means over three seconds show work a second earlier than it begins."""
    period_s = 30 * max(1.0, row_s)
    square_wave(10 * period_s, period_s, hertz=1 / row_s, begins=rests_s).to_parquet(tmp_path / "a.parquet")
    (span,) = look(tmp_path / "a.parquet").spans
    first = 1 if loses else 0
    assert span.epochs[0].start == pytest.approx(1_700_000_000 + rests_s + first * period_s, abs=0.3 * period_s)


def test_the_detector_sees_half_a_pause_of_rest_around_each_of_two_jobs_and_none_of_it_twice(
    tmp_path: Path, seen: list[tuple[float, float]]
) -> None:
    frame = pd.concat([square_wave(90, 9), square_wave(90, 9)], ignore_index=True)  # the rest between them takes 20 s
    frame["time"] = 1_700_000_000 + np.arange(len(frame)) / 5
    frame.to_parquet(tmp_path / "a.parquet")
    first, second = look(tmp_path / "a.parquet").spans
    for span, (shown_from, shown_to) in zip((first, second), seen, strict=True):
        for rest_s in (span.start - shown_from, shown_to - span.end):
            assert 7.5 <= rest_s <= 9.5  # half of the 15 s that part two jobs; where work ends is known to a bin or two
    assert seen[0][1] < seen[1][0]


@pytest.mark.parametrize("too_many", [False, True])
def test_a_trace_with_one_job_is_seen_whole_as_by_detect_unless_it_has_too_many_rows(
    tmp_path: Path, seen: list[tuple[float, float]], monkeypatch: pytest.MonkeyPatch, too_many: bool
) -> None:
    frame = square_wave(180, 12, begins=80)
    frame.to_parquet(tmp_path / "a.parquet")
    monkeypatch.setattr(gpu_history, "MOST_ROWS", len(frame) - too_many)
    (span,) = look(tmp_path / "a.parquet").spans
    ((shown_from, shown_to),) = seen
    assert (shown_from == frame["time"].iloc[0]) is not too_many
    assert (shown_to - shown_from < 120) is too_many
    assert span.start == pytest.approx(1_700_000_080, abs=1)


def test_only_the_time_asked_for_counts(tmp_path: Path, write_gpu: Callable[..., Path]) -> None:
    path = write_gpu(tmp_path / "a.parquet")
    found = look(path, Looking(CATALOG, 1_700_000_040, 1_700_000_060))
    assert (found.start, found.end) == (1_700_000_040, pytest.approx(1_700_000_059.8))
    assert any("never for 60 s" in problem for problem in found.quality.problems)
    with pytest.raises(InputError, match="0 row"):
        look(path, Looking(CATALOG, since=1_800_000_000))


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.DataFrame({"power": [1.0, 2.0]}), "no column 'time'"),
        (pd.DataFrame({"time": [1.0, np.nan], "power": [1.0, 2.0]}), "without a valid time"),
        (pd.DataFrame({"time": [1.0, 2.0], "power": [1.0, np.inf]}), "holds inf"),
        (pd.DataFrame({"time": [1.0, 2.0], "power": ["a", "b"]}), "holds 'a'"),
        (pd.DataFrame({"time": [1.0], "power": [1.0]}), r"1 row\(s\)"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_sentence(tmp_path: Path, frame: pd.DataFrame, said: str) -> None:
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=said):
        look(tmp_path / "a.parquet")


def test_an_unknown_gpu_has_epochs_but_no_profile(tmp_path: Path, write_gpu: Callable[..., Path]) -> None:
    found = look(write_gpu(tmp_path / "a.parquet"), device=replace(DEVICE, name="Foo 9000"))
    assert found.spans[0].epochs
    assert found.spans[0].report.profile is None
    assert any("no profile" in problem and "Foo 9000" in problem for problem in found.quality.problems)


def test_a_long_stretch_is_thinned_and_says_so(
    tmp_path: Path, write_gpu: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_gpu(tmp_path / "a.parquet", seconds=300.0, period_s=30.0, hertz=10.0)
    exact = look(path)
    monkeypatch.setattr(trace_rows, "MOST_ROWS", 1000)
    thinned = look(path)
    assert any("means of 6 rows" in problem for problem in thinned.quality.problems)
    assert thinned.spans[0].report.detection.period_s == pytest.approx(exact.spans[0].report.detection.period_s, rel=0.02)
    profiles = [one.spans[0].report.profile for one in (exact, thinned)]
    assert profiles[0] is not None and profiles[1] is not None
    # Means would scatter less; what the profile is made of is a sample.
    assert profiles[1].metrics["dram_active"]["std"] == pytest.approx(profiles[0].metrics["dram_active"]["std"], rel=0.05)


def test_a_counter_of_energy_that_begins_anew_takes_nothing_back(tmp_path: Path) -> None:
    frame = square_wave(120, 12)
    counter = 1e9 + np.cumsum(frame["power"]) / 5
    frame["energy"] = np.where(np.arange(len(frame)) < 300, counter, counter - 1e9 - 6000)
    frame.loc[::7, "energy"] = np.nan
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "a.parquet")
    (span,) = look(tmp_path / "a.parquet").spans
    assert span.energy_j == pytest.approx(100 * (60 + 300 * 0.7), rel=0.05)


def test_of_an_unsure_detector_no_epochs_are_told_and_two_jobs_are_named(
    tmp_path: Path, write_gpu: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsure(*given: Any) -> Detection:
        found = detect(*given)
        return replace(found, confidence=0.3, jobs=(*found.jobs, *found.jobs))

    path = write_gpu(tmp_path / "a.parquet")
    monkeypatch.setattr(span_finding, "detect", unsure)
    found = look(path)
    assert found.spans[0].report.detection.verdict == "epochs"
    assert found.spans[0].epochs == ()
    assert any("two jobs share the GPU" in problem for problem in found.quality.problems)


def test_a_processor_has_epochs_and_no_profile(tmp_path: Path, write_gpu: Callable[..., Path]) -> None:
    found = look(write_gpu(tmp_path / "a.parquet"), device=replace(DEVICE, source="host"))
    assert found.spans[0].epochs and found.spans[0].report.profile is None
    assert not any("no profile" in problem for problem in found.quality.problems)


@pytest.mark.parametrize("row_s", [1.0, 2.0, 6.0])
def test_work_goes_on_over_a_hole_of_300_s_and_a_longer_one_ends_it(row_s: float) -> None:
    """Or of a hundred rows, where these come more rarely than every three seconds."""
    longest_s, rows = max(300.0, 100 * row_s), np.arange(0, 600, row_s)
    for hole_s in (longest_s, longest_s + row_s):
        after = rows[-1] + hole_s
        activity = ActivityBins(row_s)
        activity.add(np.concatenate([rows, after + rows]), np.full(2 * rows.size, 0.5))
        stretches, idle_s = worked(activity, "dram_active", row_s)
        parts = [(0, after + 600)] if hole_s == longest_s else [(0, 600), (after, after + 600)]
        assert [(one.start, one.end) for one in stretches] == parts
        assert sum(one.rows for one in stretches) == 2 * rows.size
        assert idle_s == 0


def test_a_clock_that_jumps_makes_no_years_of_telemetry(tmp_path: Path) -> None:
    frame = square_wave(240, 12)
    frame.loc[len(frame) // 2 :, "time"] += 30 * 365.25 * 86_400
    frame.to_parquet(tmp_path / "jump.parquet")
    found = look(tmp_path / "jump.parquet")
    assert found.end - found.start > 9e8
    assert found.seconds == pytest.approx(frame.shape[0] / 5, rel=0.01)
    assert read_finding(finding_json(found)) == found
