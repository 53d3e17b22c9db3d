"""The watcher in a process of its own that finds a stub libnvidia-ml."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

NO_SUCH_PID = 2**30  # beyond the largest that Linux gives out
GIB = 1 << 30
SCRIPT = """
import dataclasses, json
from epochcast.agent.processes import ProcessWatcher
watcher = ProcessWatcher(1.0, users=True)
answered = watcher.look()
seen = [dataclasses.asdict(process) for process in watcher.processes()]
print(json.dumps([answered, watcher.errors, watcher.reason, seen]))
"""


@pytest.fixture
def look_at_stub(nvml_scenario: Any, nvml_environment: dict[str, str]) -> Callable[[str], Any]:
    """Look once in a process of its own that finds the stub driver with this scenario."""

    def look(scenario: str) -> Any:
        nvml_scenario(scenario)
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, env=os.environ | nvml_environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

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
    assert "Insufficient Permissions" in reason or "GPU 0 does not answer" in reason
