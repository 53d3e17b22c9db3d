"""The watcher in a process of its own that finds a stub libnvidia-ml."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NO_SUCH_PID = 2**30  # beyond the largest that Linux gives out
GIB = 1 << 30
SCRIPT = """
import dataclasses, json, sys, time
from epochcast.agent.processes import ProcessWatcher
watcher = ProcessWatcher(1.0)
looks = []
for _ in range(int(sys.argv[1])):
    answered = watcher.look()
    looks.append([answered, watcher.errors, watcher.reason, [dataclasses.asdict(seen) for seen in watcher.processes()]])
print(json.dumps(looks))
"""


@pytest.fixture
def look_at_stub(nvml_library: Path, tmp_path: Path) -> Callable[[str], Any]:
    """Look once in a process of its own that finds the stub driver with this scenario."""

    def look(scenario: str) -> Any:
        path = tmp_path / "scenario"
        path.write_text(scenario)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(nvml_library.parent), "NVML_STUB_SCENARIO": str(path)}
        command = [sys.executable, "-c", SCRIPT, "1"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)[0]

    return look


@pytest.fixture
def trainer() -> Iterator[int]:
    """A process to be attributed."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


def test_stub_driver(look_at_stub: Callable[[str], Any], trainer: int) -> None:
    answered, errors, reason, seen = look_at_stub(f"gpus 2\npid 1 {trainer} {GIB} 37\npid 1 {NO_SUCH_PID} {GIB} 5\n")
    assert (answered, errors) == (True, 0)
    if reason:
        pytest.skip(f"on this machine {reason}")
    (process,) = seen
    assert (process["gpu"], process["pid"], process["process"]) == ("1", trainer, "sleep")
    assert process["user"] == pwd.getpwuid(os.getuid()).pw_name
    assert process["memory_bytes"] == GIB
    assert process["sm_utilization"] == pytest.approx(0.37)


def test_stub_driver_with_instances(look_at_stub: Callable[[str], Any], trainer: int) -> None:
    answered, errors, _, seen = look_at_stub(f"gpus 1\nmig 0 3:1g.18gb:2 7:3g.71gb\npid 0 {trainer} {GIB} 37\n")
    assert (answered, errors) == (True, 0)
    # The stub lists a GPU's processes for each of its instances.
    assert [(process["gpu"], process["memory_bytes"], process["sm_utilization"]) for process in seen] == [
        ("0.3", GIB, None),
        ("0.7", GIB, None),
    ]
    assert all(process["uuid"].startswith("MIG-") for process in seen)


def test_stub_driver_that_refuses(look_at_stub: Callable[[str], Any]) -> None:
    answered, errors, reason, seen = look_at_stub("gpus 1\nfail nvmlDeviceGetComputeRunningProcesses_v3 4 0\n")
    assert (answered, errors, seen) == (False, 1, [])
    assert "Insufficient Permissions" in reason or "GPU 0 does not tell" in reason


def test_no_driver_at_all(tmp_path: Path) -> None:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT, "2"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    looks = json.loads(done.stdout)
    if looks[0][0]:
        pytest.skip("this machine has an NVIDIA driver")
    assert [look[1] for look in looks] == [1, 2]
    assert "the NVIDIA driver does not answer" in looks[0][2]
