"""Real-time scheduling of the sampling thread, in an agent of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Its source tells the scheduling of each thread in the first tick; the second works, without Python's lock as
# a driver does, until it is no longer real time. The main thread waits meanwhile.
AGENT = """
import hashlib, os, resource, signal, sys, time
from epochcast.agent import daemon, node
from epochcast.agent.config import Config
from tests.agent.stub_source import StubSource

class Busy(StubSource):
    ticks = 0

    def read(self, tick):
        self.ticks += 1
        if self.ticks == 1:
            print("sampler", os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK)
            print("others", {os.sched_getscheduler(int(t)) for t in os.listdir("/proc/self/task")} - {os.sched_getscheduler(0)})
            os.setuid(65534)  # what follows needs no rights
        elif self.ticks == 2:
            began = time.thread_time()
            while os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK != os.SCHED_OTHER and time.thread_time() < began + 5:
                hashlib.pbkdf2_hmac("sha256", b"", b"", 300_000)  # 0.1 s
        else:
            print("sampler", os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK, flush=True)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
        return []

run_time, user = map(int, sys.argv[1:])
if run_time:
    resource.setrlimit(resource.RLIMIT_RTTIME, (run_time, 20_000_000))
os.setuid(user)
node.choose = lambda config, silent=(), only=None: ([Busy("stub", ())], ())
daemon.FIRST_SAMPLE_S = 60.0
daemon.Daemon(lambda: Config(port=0)).run()
"""


def agent(root: Path, run_time: int, user: int = 0) -> tuple[list[str], str]:
    """Run an agent with this limit of real-time run time (µs, 0 for none); what its source said, and its log."""
    if shutil.which("chrt") is None or subprocess.run(["chrt", "-r", "1", "true"], check=False).returncode:
        pytest.skip("this machine gives no real-time scheduling")
    command = [sys.executable, "-c", AGENT, str(run_time), str(user)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def test_the_sampling_thread_alone_is_real_time_until_a_tick_overruns(root: Path) -> None:
    said, log = agent(root, 50_000)
    assert said == [f"sampler {os.SCHED_RR}", f"others {{{os.SCHED_OTHER}}}", f"sampler {os.SCHED_OTHER}"]
    assert "a tick took more CPU time than real-time scheduling allows" in log


def test_without_a_limit_of_run_time_nothing_is_real_time(root: Path) -> None:
    said, log = agent(root, 0)
    assert said == [f"sampler {os.SCHED_OTHER}", "others set()", f"sampler {os.SCHED_OTHER}"]
    assert "real-time" not in log


def test_a_system_that_refuses_is_logged_and_sampling_goes_on(root: Path) -> None:
    said, log = agent(root, 50_000, 65534)
    assert said[-1] == f"sampler {os.SCHED_OTHER}"
    assert "no real-time scheduling, sampling continues without it: Operation not permitted" in log
