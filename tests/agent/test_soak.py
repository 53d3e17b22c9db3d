"""Minutes of sampling with readers at work (`make soak`): each tick is there or counted as missed, and memory stays."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

SECONDS = float(os.environ.get("EPOCHCAST_SOAK_SECONDS", "180"))
WARM_UP_S = 30.0  # rings and buffers reach their size
RETENTION_S = 20.0  # far shorter than the run, so that the ring wraps many times


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.soak
def test_no_tick_is_lost_uncounted_and_memory_stays(tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    command = [sys.executable, "-m", "epochcast.agent", "--source", "host", "--port", "0", "--port-file", str(port_file)]
    command += ["--retention", str(RETENTION_S)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as agent:
        try:
            while not port_file.exists():
                assert agent.poll() is None
                time.sleep(0.05)
            url = f"http://127.0.0.1:{port_file.read_text().strip()}"
            times: set[float] = set()
            warm_bytes, missed, began = None, 0, time.monotonic()
            while time.monotonic() - began < SECONDS:
                with urllib.request.urlopen(f"{url}/api/v1/samples") as answer:
                    gpu = json.load(answer)["gpus"][0]
                times.update(round(moment, 1) for moment in gpu["time"])
                missed = gpu["missed_ticks"]
                with urllib.request.urlopen(f"{url}/metrics") as page:
                    assert b"epochcast_host_cpu_utilization_ratio" in page.read()
                if warm_bytes is None and time.monotonic() - began > WARM_UP_S:
                    warm_bytes = _resident_bytes(agent.pid)
                time.sleep(1.0)
            grown = _resident_bytes(agent.pid) - (warm_bytes or 0)
        finally:
            agent.terminate()
    ticks = round((max(times) - min(times)) * 10) + 1
    assert len(times) + missed >= ticks, f"{ticks - len(times) - missed} ticks of {ticks} were lost and not counted"
    assert grown < 5e6, f"the agent grew by {grown / 1e6:.1f} MB in {SECONDS - WARM_UP_S:.0f} s"
