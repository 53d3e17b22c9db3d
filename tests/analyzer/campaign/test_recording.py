"""What a run's process leaves: the trace of the device that trained, labels, and reasons where it has none."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pytest

from epochcast.analyzer.campaign import overhead as overhead_module
from epochcast.analyzer.campaign import recording
from epochcast.analyzer.campaign.device import Device
from epochcast.analyzer.campaign.overhead import MeasuredOverhead, append_overhead, measure_overhead, read_overheads
from epochcast.analyzer.campaign.plan import Overhead, Workload
from epochcast.analyzer.campaign.recording import RunError, Training
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.recording.agent_client import AgentClient
from epochcast.analyzer.recording.record import Recording
from epochcast.analyzer.traces.trace import Trace, write_trace

GPU = Device("cuda:0", "Tesla T4", "GPU-b", "nvml")
WORKLOAD = Workload(network="Net", batch_size=16, image_size=32, samples=100)
BLOCKS = Overhead(network="Net", batch_size=16, image_size=32, samples=100, epochs=1, pairs=2)


def _trace(folder: Path, uuid: str) -> Path:
    frame = pd.DataFrame({"time": [0.0, 0.1], "power": [1.0, 2.0]})
    return write_trace(Trace(frame, gpu="Tesla T4", uuid=uuid), folder / f"run.{uuid}.parquet")


def test_of_several_gpus_the_one_that_trained_is_kept(tmp_path: Path) -> None:
    traces = tuple(_trace(tmp_path, uuid) for uuid in ("GPU-a", "GPU-b", "GPU-c"))
    assert recording._trained_device(Recording(traces, 6, 0, 0), GPU, []) == traces[1]
    assert list(tmp_path.iterdir()) == [traces[1]]


def test_a_gpu_that_gave_no_sample_is_a_failed_run(tmp_path: Path) -> None:
    traces = tuple(_trace(tmp_path, uuid) for uuid in ("GPU-a", "GPU-c"))
    with pytest.raises(RunError, match=r"the agent gave no sample of Tesla T4 \(GPU-b\)"):
        recording._trained_device(Recording(traces, 4, 0, 0), GPU, [])


def test_a_trace_that_cannot_be_written_is_no_failure_of_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = Recording((), 4, 0, 1, "cannot write 'run.parquet': No space left on device")
    monkeypatch.setattr(recording, "record", lambda *_, **__: result)
    with pytest.raises(InputError, match="No space left on device"):
        recording.record_run(WORKLOAD, 1, tmp_path, "run", Training(GPU))


def test_labels_are_found_among_what_else_was_said_and_say_what_was_trained() -> None:
    marks = {"epoch_starts": [1.0], "epoch_ends": [2.0], "training": True, "threads": 2}
    said = ["a network's own words", json.dumps(marks), "[W] a library's, at its end"]
    labels = recording._labels(WORKLOAD, said)
    assert (labels["workload"], labels["group"], labels["samples"], labels["threads"]) == ("Net|16|32|100", "Net", 100, 2)


@pytest.mark.parametrize("said", [[], ["done"], ["[1]"], ['{"epoch_starts": [1.0]}']])
def test_a_training_without_labels_is_a_failed_run(said: list[str]) -> None:
    with pytest.raises(RunError, match="did not say when its epochs were"):
        recording._labels(WORKLOAD, said)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import sys; sys.exit('no memory')", "no memory"),
        (
            """input(); print("[1, 3]"); print('{"epoch_s": [1.0]}', flush=True); input(); raise ValueError('in the second')""",
            "ValueError: in the second",
        ),
        # Dead before the line that asks it for the second: while the agent started.
        ("""input(); print('{"epoch_s": [1.0]}', flush=True); import sys; sys.exit('out of memory')""", "out of memory"),
    ],
)
def test_blocks_that_break_say_why(monkeypatch: pytest.MonkeyPatch, program: str, reason: str) -> None:
    monkeypatch.setattr(overhead_module, "trainer_command", lambda *_, **__: [sys.executable, "-c", program])
    monkeypatch.setattr(AgentClient, "healthy", lambda client: False)
    with pytest.raises(RunError, match=reason):
        measure_overhead(BLOCKS, "run", Training(Device("cpu", "Some CPU", "host-here", "host")))


def test_where_an_agent_samples_all_the_time_its_cost_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AgentClient, "healthy", lambda client: True)
    with pytest.raises(RunError, match="an epochcast-agent samples this node all the time; stop it"):
        measure_overhead(BLOCKS, "run", Training(GPU))


@pytest.mark.parametrize("change", [{"overhead": "much"}, {"with_s": 5}, {"high": None}, None])
def test_a_broken_list_of_overheads_is_refused(tmp_path: Path, change: dict[str, object] | None) -> None:
    append_overhead(tmp_path, MeasuredOverhead("run", "Net|16", "CPU", 0.01, -0.01, 0.03, [[1.0]], [[1.0]], 0.1, 1e9))
    (entry,) = read_overheads(tmp_path)
    (tmp_path / "overhead.json").write_text("[{" if change is None else json.dumps([asdict(entry) | change]))
    with pytest.raises(InputError, match=r"overhead.json' is not a readable list of overheads: .*; remove it"):
        read_overheads(tmp_path)
