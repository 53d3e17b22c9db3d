"""CPU per new driver value, beside other tools that watch GPUs through NVML, each at its fastest rate.

    python -m benchmarks.agent.peers [--seconds 30]

All watch the same eight GPUs of the stub libnvidia-ml, which counts each value that it hands out and that differs from the one
handed out before: reading a slow counter again is no news. Ours keeps what it reads; the others mostly show the newest. The
others are installed into .venv-peers (git-ignored); one that cannot be installed is left out, and said so. Prints JSON.
"""

import argparse
import contextlib
import os
import pty
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .cost import EVERYTHING_FAST
from .stubbed import ROOT, running_agent, show, stubbed_driver, usage

WARM_UP_S = 5.0
VENV = ROOT / ".venv-peers"
# nvitop-exporter and gpustat refuse to go faster; zeus warns below 0.05 s and by itself takes at most half a driver update.
ZEUS = """
import time
from zeus.monitor.power import PowerMonitor
if __name__ == "__main__":
    monitor = PowerMonitor(update_period=0.05)
    time.sleep(3600)
"""
PEERS = {
    "nvitop-exporter==1.7.2": ["-m", "nvitop_exporter", "--interval", "0.25", "--port", "19118"],
    "gpustat==1.1.1": ["-m", "gpustat", "--interval", "0.1", "--no-color", "--no-processes", "--show-power"],
    "zeus==0.16.0": ["{folder}/watch.py"],
}


def installed(requirement: str) -> bool:
    """Install a peer into its own environment; return whether that worked."""
    if not VENV.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    command = [VENV / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


@contextmanager
def running(arguments: list[str], driver: Mapping[str, str]) -> Iterator[int]:
    """Run a peer until the block ends; yield its session."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "watch.py").write_text(ZEUS)
        command = [str(VENV / "bin" / "python"), *(part.format(folder=folder) for part in arguments)]
        # A terminal, that of a user who watches: gpustat redraws slowly without one.
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            command, env=dict(driver), stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        threading.Thread(target=swallow, args=(ours,), daemon=True).start()
        try:
            yield process.pid
            if process.poll() is not None:
                raise SystemExit(f"{arguments} ended with {process.returncode}")
        finally:
            subprocess.run(["pkill", "-TERM", "-s", str(process.pid)], check=False)
            process.wait()


def swallow(terminal: int) -> None:
    """Read what a peer shows until it ends."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 1 << 16):
            pass


def handed_out(driver: Mapping[str, str]) -> tuple[int, int]:
    """Return how many values the stub has handed out so far: those that were news, and all."""
    new, everything = struct.unpack("QQ", Path(driver["NVML_STUB_SCENARIO"] + ".delivered").read_bytes())
    return new, everything


def news(session: int, driver: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """Return CPU and new values over the next ``seconds``, after a warm-up."""
    time.sleep(WARM_UP_S)
    before, (new_before, all_before), began = usage(session), handed_out(driver), time.monotonic()
    time.sleep(seconds)
    after, (new, everything), elapsed = usage(session), handed_out(driver), time.monotonic() - began
    cpu = after.cpu_s - before.cpu_s
    return {
        "cpu_percent": round(100 * cpu / elapsed, 2),
        "values_per_second": round((everything - all_before) / elapsed, 1),
        "new_values_per_second": round((new - new_before) / elapsed, 1),
        "cpu_us_per_new_value": round(1e6 * cpu / max(1, new - new_before), 2),
        "resident_mb": round(after.resident_bytes / 1e6, 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="length of each measurement (default 30)")
    seconds = parser.parse_args().seconds
    results: dict[str, Any] = {}
    for name, configuration in (("epochcast-agent", ""), ("epochcast-agent, every metric fast", EVERYTHING_FAST)):
        with stubbed_driver() as driver, running_agent(["--source", "gpm"], driver, configuration) as agent:
            results[name] = news(agent.process.pid, driver, seconds)
    for requirement, arguments in PEERS.items():
        if not installed(requirement):
            results[requirement] = "could not be installed"
            continue
        with stubbed_driver() as driver, running(arguments, driver) as session:
            results[requirement] = news(session, driver, seconds)
    ours = results["epochcast-agent"]["cpu_us_per_new_value"]
    peers = [result["cpu_us_per_new_value"] for name, result in results.items() if name in PEERS and isinstance(result, dict)]
    results["best peer / ours"] = round(min(peers) / ours, 1) if peers else None
    show(results)


if __name__ == "__main__":
    main()
