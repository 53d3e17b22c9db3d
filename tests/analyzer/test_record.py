"""``epochcast record`` around a real command, with a real agent on this machine's own telemetry."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from epochcast.analyzer.agent_process import agent_process
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.record import record
from epochcast.analyzer.trace import read_trace

BUSY = "import time; end = time.monotonic() + 2.0\nwhile time.monotonic() < end: sum(range(1000))"


def _epochcast(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "epochcast.analyzer", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def test_a_recording_holds_every_tick_of_the_command(tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    done = _epochcast("record", "--out", str(out), "--source", "host", "--json", "--", sys.executable, "-c", BUSY)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["trace"] == str(out)
    trace = read_trace(out)
    assert len(trace.frame) == answer["samples"]
    assert trace.source == "host"
    assert not trace.simulated
    # Two seconds at 10 Hz; ticks that a busy machine missed are counted, not hidden.
    assert len(trace.frame) + answer["missed"] >= 18
    assert np.allclose(np.diff(trace.time) / 0.1, np.round(np.diff(trace.time) / 0.1), atol=0.01), "ticks lie on the 0.1 s grid"
    busy = trace.metrics(["cpu_utilization"])["cpu_utilization"]
    assert np.nanmax(busy) > 0
    assert np.nanmin(busy) >= 0
    assert np.nanmax(busy) <= 1


def test_the_commands_own_status_is_returned_and_its_samples_are_kept(tmp_path: Path) -> None:
    out = tmp_path / "failed.csv"
    code = "import sys, time; time.sleep(0.5); sys.exit(7)"
    done = _epochcast("record", "--out", str(out), "--source", "host", "--", sys.executable, "-c", code)
    assert done.returncode == 7
    assert len(read_trace(out).frame) >= 3


def test_sigterm_ends_the_command_and_keeps_its_samples(tmp_path: Path) -> None:
    out, mark = tmp_path / "ended.parquet", tmp_path / "started"
    sleeper = f"import pathlib, time; pathlib.Path({str(mark)!r}).touch(); time.sleep(60)"
    arguments = ["record", "--out", str(out), "--source", "host", "--", sys.executable, "-c", sleeper]
    with subprocess.Popen([sys.executable, "-m", "epochcast.analyzer", *arguments], stderr=subprocess.DEVNULL) as recording:
        deadline = time.monotonic() + 30
        while not mark.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1.0)
        recording.send_signal(signal.SIGTERM)
        assert recording.wait(30) == 128 + signal.SIGTERM
    assert len(read_trace(out).frame) >= 8


def test_a_recording_that_cannot_be_written_where_told_is_kept_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    with pytest.raises(InputError, match="the recording was kept as") as caught:
        record(["sh", "-c", f"sleep 0.5; rmdir {folder}"], folder / "run.csv", source="host")
    kept = Path(str(caught.value).split("kept as ")[1].strip("'"))
    assert len(read_trace(kept).frame) >= 1
    kept.unlink()
    kept.parent.rmdir()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--out", "run.txt", "--", "true"], ".parquet or .csv"),
        (["--out", "no/such/folder/run.csv", "--", "true"], "no folder 'no/such/folder'"),
        (["--source", "host", "--out", "x.csv", "--", "no-such-command-here"], "cannot run 'no-such-command-here'"),
        (["--source", "telepathy", "--out", "x.csv", "--", "true"], "telepathy"),
        ([], "Missing argument 'COMMAND...'"),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_2(arguments: list[str], says: str) -> None:
    done = _epochcast("record", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_a_gpu_the_nvml_source_is_refused_and_the_command_never_runs(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    try:
        with agent_process(["--source", "nvml"]):
            pytest.skip("this machine has a GPU")
    except InputError as error:
        assert "\n" not in str(error)
    with pytest.raises(InputError):
        record(["touch", str(mark)], tmp_path / "x.csv", source="nvml")
    assert not mark.exists()
