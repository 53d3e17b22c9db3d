"""Timelines: what ranks do when, and the Chrome trace of it."""

import itertools
import json
from pathlib import Path

import pytest

from epochcast.analyzer.backends.distributed.plan.schedule import StageTimes, simulate
from epochcast.analyzer.backends.distributed.plan.timeline import TimelineEvent, write_chrome_trace
from epochcast.analyzer.errors import InputError

CHUNKS = [StageTimes(0.010, 0.020, 0.003), StageTimes(0.012, 0.024, 0.003), StageTimes(0.009, 0.018, 0.003)] * 2


@pytest.fixture
def timeline() -> list[TimelineEvent]:
    events = simulate(CHUNKS, 3, 6, "1f1b")
    end = max(event.end for event in events)
    return [*events, *(TimelineEvent(rank, None, None, "optimizer", end, end + 0.002) for rank in range(3))]


def test_the_trace_opens_and_no_two_events_of_a_thread_overlap(timeline: list[TimelineEvent], tmp_path: Path) -> None:
    trace = json.loads(write_chrome_trace(tmp_path / "trace.json", timeline, "3 ranks").read_text("utf-8"))
    entries = [entry for entry in trace["traceEvents"] if entry["ph"] == "X"]
    assert {entry["cat"] for entry in entries} == {*("forward", "backward", "send activation", "send gradient", "optimizer")}
    threads: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for entry in entries:
        threads.setdefault((entry["pid"], entry["tid"]), []).append((entry["ts"], entry["ts"] + entry["dur"]))
    assert {pid for pid, _ in threads} == {0, 1, 2}
    for spans in threads.values():
        for (_, end), (start, _) in itertools.pairwise(sorted(spans)):
            assert start >= end - 1e-6
    assert max(entry["ts"] + entry["dur"] for entry in entries) == pytest.approx(trace["otherData"]["seconds"] * 1e6)


def test_a_trace_that_cannot_be_written_is_one_sentence(timeline: list[TimelineEvent], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        write_chrome_trace(tmp_path / "absent" / "trace.json", timeline, "3 ranks")
