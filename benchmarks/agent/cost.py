"""What the agent costs at eight GPUs: CPU, memory and ticks, and CPU per new driver value beside other tools that use NVML.

    python -m benchmarks.agent.cost [--seconds 45] [--write]

Real programs on the stub libnvidia-ml, which answers at once (a real driver's own time comes on top) and counts each value that
it hands out and that differs from the one handed out before: reading a slow counter again is no news. Ours keeps what it
reads; the others, each at its fastest rate, mostly show the newest. They are installed into .venv-peers (git-ignored); what
cannot be installed is left out.
"""

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

from ..page import MEASUREMENTS, ROOT, markdown_table, options, publish
from ..processes import cpu_seconds, machine, memory, running
from .stubbed import EVERYTHING_FAST, running_agent, spread, stubbed_driver

WARM_UP_S = 10.0
CASES = {"default tiers": ("gpm", ""), "every metric fast": ("gpm", EVERYTHING_FAST), "source `host`": ("host", "")}
TARGETS = ("CPU (0.5 %)", "resident (60 MB)", "tick, mean", "tick, p99 (5 ms)", "lateness, p99", "missed ticks")
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
def running_peer(arguments: list[str], driver: Mapping[str, str]) -> Iterator[int]:
    """Run a peer until the block ends, on a terminal of its own, without which gpustat redraws slowly; yield its process id."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "watch.py").write_text(ZEUS)
        ours, theirs = pty.openpty()
        threading.Thread(target=swallow, args=(ours,), daemon=True).start()
        command = [VENV / "bin" / "python", *(part.format(folder=folder) for part in arguments)]
        with running(command, environment=driver, terminal=theirs) as pid:
            os.close(theirs)
            yield pid


def swallow(terminal: int) -> None:
    """Read what a peer shows until it ends."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 1 << 16):
            pass


class Cost:
    """What a program and its descendants use from now until :meth:`stop`.

    Attributes:
        cpu: processor seconds per second.
        resident: bytes at the end.
        values, new: how many values the stub handed out per second, and of them those that were news.
    """

    def __init__(self, pid: int, driver: Mapping[str, str]) -> None:
        self._pid, self._counts = pid, Path(driver["NVML_STUB_SCENARIO"] + ".delivered")
        self._before = self._read()

    def _read(self) -> tuple[float, ...]:
        return time.monotonic(), cpu_seconds(self._pid), *struct.unpack("QQ", self._counts.read_bytes())

    def stop(self) -> None:
        """Count until now."""
        elapsed, cpu, new, values = (now - then for now, then in zip(self._read(), self._before, strict=True))
        self.cpu, self.new, self.values = cpu / elapsed, new / elapsed, values / elapsed
        self.resident = sum(one.resident for one in memory(self._pid).values())

    def row(self, tool: str) -> tuple[str, ...]:
        """A line of the table of tools."""
        each = "–" if not self.new else f"{1e6 * self.cpu / self.new:.1f} µs"
        megabytes = f"{self.resident / 1e6:.0f} MB"
        return tool, f"{self.cpu:.2%}", f"{self.values:.0f}", f"{self.new:.0f}", each, megabytes


def measured(seconds: float) -> Iterator[str]:
    """Yield both tables."""
    ours, tools = [], []
    for name, (source, settings) in CASES.items():
        with stubbed_driver() as driver, running_agent(driver, settings, source=source) as agent:
            time.sleep(WARM_UP_S)
            before, cost = agent.figures(), Cost(agent.pid, driver)
            time.sleep(seconds)
            cost.stop()
            after = agent.figures()
        mean, most = spread(before, after, "epochcast_agent_tick_seconds")
        _, late = spread(before, after, "epochcast_agent_tick_lateness_seconds")
        missed = after["epochcast_agent_missed_ticks_total"] - before["epochcast_agent_missed_ticks_total"]
        times = (f"{mean:.2f} ms", f"< {most:g} ms", f"< {late:g} ms", f"{missed:.0f}")
        ours.append((name, f"{cost.cpu:.2%}", f"{cost.resident / 1e6:.1f} MB", *times))
        if source != "host":  # which reads nothing from the stub
            tools.append(cost.row(f"epochcast-agent, {name}"))
    for requirement, arguments in PEERS.items():
        if not installed(requirement):
            continue
        with stubbed_driver() as driver, running_peer(arguments, driver) as pid:
            time.sleep(WARM_UP_S)
            cost = Cost(pid, driver)
            time.sleep(seconds)
            cost.stop()
        tools.append(cost.row(requirement.replace("==", " ")))
    yield from markdown_table(("(target)", *TARGETS), ours)
    yield ""
    yield from markdown_table(("tool", "CPU", "values/s", "new values/s", "CPU per new value", "memory"), tools)
    yield ""
    yield f"{seconds:g} s of each, {machine()}."


def main() -> None:
    """Measure; print or write the tables."""
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=45.0, help="length of each measurement (default 45)")
    arguments = parser.parse_args()
    publish(MEASUREMENTS, "agent_cost", measured(arguments.seconds), write=arguments.write)


if __name__ == "__main__":
    main()
