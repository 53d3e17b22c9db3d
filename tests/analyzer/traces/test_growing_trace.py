"""A trace that is on disk while it grows: after every write the file alone is a trace of all that came."""

import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.recording.growing_trace import GrowingTrace
from epochcast.analyzer.traces.trace import Trace, read_trace, write_trace

ABOUT = Trace(pd.DataFrame({"time": []}), gpu="Tesla T4", uuid="GPU-a", source="nvml")


def _power(growing: GrowingTrace, *times: float) -> None:
    growing.extend(times, {"power": [time * 10 for time in times], "idle": [None for _ in times]})


def _times(path: Path | None) -> list[float]:
    assert path is not None
    return read_trace(path).time.tolist()


def test_the_file_is_a_trace_after_every_write(tmp_path: Path) -> None:
    growing = GrowingTrace(tmp_path / "run.csv", ABOUT)
    _power(growing, 1.0, 1.1)
    assert (growing.unwritten, growing.write(), growing.unwritten) == (2, True, 0)
    assert _times(growing.path) == [1.0, 1.1]
    _power(growing, 1.1, 1.2)  # called twice: a signal came in between
    assert growing.write()
    read = read_trace(tmp_path / "run.csv")
    assert (read.gpu, read.uuid, read.time.tolist()) == ("Tesla T4", "GPU-a", [1.0, 1.1, 1.2])
    growing.missed_ticks = 3
    whole = growing.trace()
    assert (whole.missed_ticks, whole.metric_names) == (3, ("power",))
    assert whole.frame["power"].tolist() == [10.0, 11.0, 12.0]
    growing.remove()
    assert list(tmp_path.iterdir()) == []


def test_metrics_and_attributes_may_come_later(tmp_path: Path) -> None:
    growing = GrowingTrace(tmp_path / "run.csv", ABOUT)
    _power(growing, 1.0)
    growing.write()
    growing.about = replace(ABOUT, static={"sms": 40})
    growing.extend([2.0], {"sm_active": [0.5], "power": [20.0]})  # an agent that was started again with another source
    _power(growing, 3.0)
    assert growing.write()
    read = read_trace(tmp_path / "run.csv")
    assert read.static == {"sms": 40}
    assert read.frame["power"].tolist() == [10.0, 20.0, 30.0]
    np.testing.assert_array_equal(read.frame["sm_active"], [np.nan, 0.5, np.nan])
    pd.testing.assert_frame_equal(growing.trace().frame, read.frame.drop(columns="idle"))


def test_what_an_earlier_recording_left_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_text("left by a kill")
    growing = GrowingTrace(tmp_path / "run.csv", ABOUT)
    _power(growing, 1.0)
    assert growing.write()
    assert growing.path == tmp_path / "run-2.csv"
    growing.remove()
    assert (tmp_path / "run.csv").read_text() == "left by a kill"


def test_a_file_that_somebody_removes_or_cuts_is_written_again(tmp_path: Path) -> None:
    growing = GrowingTrace(tmp_path / "run.csv", ABOUT)
    for time, damage in ((1.0, Path.unlink), (2.0, lambda path: path.write_text("")), (3.0, lambda path: None)):
        _power(growing, time)
        assert growing.write()
        assert growing.path is not None
        damage(growing.path)
    assert growing.path == tmp_path / "run-2.csv"
    assert _times(growing.path) == [1.0, 2.0, 3.0]


def test_a_full_disk_takes_nothing_or_all(tmp_path: Path) -> None:
    """For any size at which it is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    full = GrowingTrace(tmp_path / "never.csv", ABOUT)
    growing = GrowingTrace(tmp_path / "run.csv", ABOUT)
    _power(growing, 1.0)
    growing.write()
    length = (tmp_path / "run.csv").stat().st_size
    try:
        for time in range(2, 40):
            _power(full, time)
            _power(growing, time, time + 0.1, time + 0.2)
            resource.setrlimit(resource.RLIMIT_FSIZE, (length + time, hard))
            was = _times(growing.path)
            written, _ = growing.write(), full.write()
            assert _times(growing.path) == (growing.trace().time.tolist() if written else was)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert growing.unwritten > 0
    assert growing.write()
    assert _times(growing.path) == growing.trace().time.tolist()


@pytest.mark.parametrize("interrupted", ["write", "truncate"])
def test_a_signal_during_a_write_costs_and_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    growing = GrowingTrace(tmp_path / "run.csv", ABOUT)
    _power(growing, 1.0)
    growing.write()
    _power(growing, 2.0)
    append: Callable[[GrowingTrace, bytes], None] = GrowingTrace._append

    def interrupt(growing: GrowingTrace, lines: bytes) -> None:
        append(growing, lines if interrupted == "write" else lines[:3])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(GrowingTrace, "_append", interrupt)
        growing.write()
    _power(growing, 3.0)
    assert growing.write()
    assert _times(growing.path) == [1.0, 2.0, 3.0]


def test_wherever_a_kill_cut_a_file_off_its_whole_lines_are_read(tmp_path: Path) -> None:
    path = write_trace(
        Trace(pd.DataFrame({"time": [1.0, 2.0, 3.0], "power": [10.5, 11.5, 12.5]}), gpu="Tesla T4"), tmp_path / "a.csv"
    )
    whole = path.read_bytes()
    rows = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")][1:]  # where the column names and each row end
    for length in range(rows[0], len(whole) + 1):
        path.write_bytes(whole[:length])
        expected = [1.0, 2.0, 3.0][: sum(end <= length for end in rows[1:])]
        if expected:
            read = read_trace(path)
            assert read.time.tolist() == expected
            assert read.notes == (() if length in rows else ("left out: the last line, which is cut off",))
        else:
            with pytest.raises(InputError, match="has no rows"):
                read_trace(path)
