"""``epochcast record`` of eight GPUs (a stub driver) that is killed or whose disk is full: what is on the disk then.

All of it is compared with what the agent itself sampled. A full disk is a limit on the size of the recorder's files, which
takes no rights, and where file systems may be mounted a small one.
"""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.traces.trace import read_trace

from ...processes import Process

RECORD = """
import sys
from epochcast.analyzer.traces.recording import record
from epochcast.analyzer.entry import main
record.DAEMON_URL = sys.argv.pop(1)
sys.exit(main())
"""
DEVICES = [*(f"gpu{number}" for number in range(8)), "host"]
UNLIMITED = resource.RLIM_INFINITY
BUSY = 2  # what a busy machine's agent and recorder may be late [s]


class Recorder:
    """A running ``epochcast record`` that reads an agent of the test's own, and its folder."""

    def __init__(self, agent: Process, folder: Path, command: str, environment: dict[str, str]) -> None:
        self.agent = agent
        self.folder = folder
        self.started = np.inf  # when there were samples of each GPU on the disk
        self._end = folder.parent / "end"
        command = f"{command}; date +%s.%N > {self._end}; exit 5"
        arguments = ["record", "--json", "--out", str(folder / "run.parquet"), "--", "sh", "-c", command]
        self.process = subprocess.Popen(
            [sys.executable, "-c", RECORD, agent.url, *arguments],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def growing(self, label: str) -> Path:
        return self.folder / f"run.{label}.recording.csv"

    def limit_files(self, size: int) -> float:
        """Let no file of the recorder grow beyond ``size`` bytes from now on; now [unix s]."""
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, UNLIMITED))
        return time.time()

    def end(self) -> tuple[dict[str, Any], str]:
        """Its answer and other words, once it ended with the status of its command."""
        answer, said = self.process.communicate(timeout=180)
        assert self.process.returncode == 5, said
        return json.loads(answer), said

    @property
    def ended(self) -> float:
        """When the command ended, less what a busy machine may be late [unix s]."""
        return float(self._end.read_text()) - BUSY

    def sampled(self, label: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Times of what the agent holds of a GPU [unix s]."""
        (gpu,) = self.agent.json(f"/api/v1/samples?gpu={label.removeprefix('gpu')}")["gpus"]
        return np.array(gpu["time"])

    def check(self, label: str, file: Path, until: float) -> None:
        """Assert that a file has every sample of a device from its first up to ``until`` and later; detect reads it."""
        times = read_trace(file).time
        assert times[-1] >= until
        if label != "host":  # that is sampled by the recorder's own agent
            sampled = self.sampled(label)
            assert set(sampled[(sampled >= times[0]) & (sampled <= times[-1])]) == set(times)
        assert times[0] < self.started
        assert main(["detect", str(file)]) in (0, 1)


@pytest.fixture
def start_record(
    nvml_library: Path, start_agent: Callable[..., Process], tmp_path: Path, until: Callable[..., None]
) -> Iterator[Callable[..., Recorder]]:
    """Start a recording of eight GPUs into a folder, and wait until it has some samples of each on the disk."""
    scenario = tmp_path / "scenario"
    scenario.write_text("gpus 8\nepoch * 1 0.7\n")
    stub = {"LD_LIBRARY_PATH": str(nvml_library.parent), "NVML_STUB_SCENARIO": str(scenario)}
    started: list[Recorder] = []

    def start(command: str, folder: Path = tmp_path / "out") -> Recorder:
        agent = start_agent("--source", "nvml", env=stub)
        folder.mkdir(exist_ok=True)
        started.append(Recorder(agent, folder, command, {"TMPDIR": str(tmp_path)}))
        growing = [started[-1].growing(label) for label in DEVICES]
        until(lambda: all(file.exists() and file.stat().st_size for file in growing))  # each is created empty
        started[-1].started = time.time()
        return started[-1]

    yield start
    for recorder in started:
        with suppress(ProcessLookupError):  # the command too, which a kill of the recorder leaves alone
            os.killpg(recorder.process.pid, signal.SIGKILL)
        recorder.process.communicate(timeout=30)


def test_a_kill_leaves_all_but_the_last_two_seconds(start_record: Callable[..., Recorder], tmp_path: Path) -> None:
    recorder = start_record(f"echo $$ > {tmp_path}/command; sleep 60")
    time.sleep(5)  # more than what may be lost and late
    recorder.process.kill()
    killed = time.time()
    recorder.process.wait()
    os.kill(int((tmp_path / "command").read_text()), 0)  # the command goes on
    assert sorted(recorder.folder.iterdir()) == [recorder.growing(label) for label in DEVICES]
    for label in DEVICES:
        recorder.check(label, recorder.growing(label), killed - 2 - BUSY)


def test_a_disk_that_stays_full_leaves_what_was_there(start_record: Callable[..., Recorder]) -> None:
    recorder = start_record("sleep 5")
    full = recorder.limit_files(0)
    answer, said = recorder.end()
    assert answer["trace"] == [str(recorder.growing(label)) for label in DEVICES]
    rows = 0
    for label in DEVICES:
        recorder.check(label, recorder.growing(label), full - 2 - BUSY)
        rows += len(read_trace(recorder.growing(label)).frame)
    assert answer["samples"] == rows
    assert "run.gpu0.parquet': File too large; the samples of 9 of 9 devices are kept as" in said
    lost = re.search(r"the last samples, (\d+) of all devices together, are lost", said)
    assert lost is not None
    assert 0 < int(lost[1]) < 9 * 10 * 8  # of 5 s, each second's of 9 devices, and what is taken before and after


def test_a_disk_that_was_full_for_a_while_costs_nothing(start_record: Callable[..., Recorder]) -> None:
    recorder = start_record("sleep 7")
    recorder.limit_files(0)
    time.sleep(2.5)
    recorder.limit_files(UNLIMITED)
    answer, said = recorder.end()
    assert said == ""
    assert sorted(recorder.folder.iterdir()) == [recorder.folder / f"run.{label}.parquet" for label in DEVICES]
    for label, file in zip(DEVICES, answer["trace"], strict=True):
        recorder.check(label, Path(file), recorder.ended)


def test_where_the_final_files_do_not_fit_the_growing_ones_stay(start_record: Callable[..., Recorder]) -> None:
    recorder = start_record("sleep 3")
    recorder.limit_files(8_000)  # 3 s take 4 kB of CSV; a GPU's Parquet takes 10 kB for its columns alone, the host's 7 in all
    answer, said = recorder.end()
    files = [*(recorder.growing(label) for label in DEVICES[:-1]), recorder.folder / "run.host.parquet"]
    assert answer["trace"] == [str(file) for file in files]
    assert said.endswith(f"{files[-2]}\n")  # nothing is lost
    for label, file in zip(DEVICES, files, strict=True):
        recorder.check(label, file, recorder.ended)
    assert sorted(recorder.folder.iterdir()) == files


def test_a_folder_that_is_removed_costs_nothing(start_record: Callable[..., Recorder], tmp_path: Path) -> None:
    recorder = start_record(f"sleep 3; rm -r {tmp_path}/out")
    answer, _ = recorder.end()
    assert [Path(file).name for file in answer["trace"]] == [f"run.{label}.parquet" for label in DEVICES]
    (folder,) = {Path(file).parent for file in answer["trace"]}
    assert folder.parent == tmp_path
    for label, file in zip(DEVICES, answer["trace"], strict=True):
        recorder.check(label, Path(file), recorder.ended)


def test_a_real_disk_that_becomes_full(start_record: Callable[..., Recorder], tmp_path: Path) -> None:
    tiny = tmp_path / "tiny"
    tiny.mkdir()
    if (
        shutil.which("mount") is None
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tiny], check=False, capture_output=True).returncode
    ):
        pytest.skip("no file system may be mounted here")
    try:
        recorder = start_record("sleep 5", tiny)
        with suppress(OSError), (tiny / "ballast").open("wb", buffering=0) as ballast:
            while ballast.write(b"\0" * 4096):
                pass
        full = time.time()
        answer, said = recorder.end()
        assert "No space left on device; the samples of 9 of 9 devices are kept as" in said
        assert "lost" not in said
        for label, file in zip(DEVICES, answer["trace"], strict=True):
            recorder.check(label, recorder.growing(label), full - 2 - BUSY)
            recorder.check(label, Path(file), recorder.ended)
    finally:
        subprocess.run(["umount", tiny], check=True)
