"""What the agent costs at eight GPUs: CPU, memory and ticks, and CPU per new driver value next to other tools that use NVML.

    python -m lab.speed.agent.cost [--seconds 30] [--rounds 5] [--write]

Real programs on the stub libnvidia-ml, which answers at once (a real driver's own time comes on top) and counts each value that
it hands out and that differs from the one handed out before: reading a slow counter again is no news. The other tools read
plain NVML, so ours is compared with them over plain NVML; GPM gives it 12 values a call. Ours keeps what it reads; the others,
each at its fastest rate, mostly show the newest. Each program is measured once it has long been reading; every round starts all
of them again, and figures are medians of the rounds. Peers are installed into .venv-peers (git-ignored); what cannot be
installed is left out.
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
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from lab.speed.agent.stubbed import EVERYTHING_FAST, GPUS, running_agent, spread, stubbed_driver
from lab.speed.page import MEASUREMENTS, ROOT, markdown_table, options, publish
from lab.speed.processes import cpu_seconds, machine, memory, running

# Zeus starts processes for up to ten seconds, so a program is warm only that long after it has read so many new values.
WARM_UP_S = 10.0
WARM_VALUES = 10 * GPUS
GPM = "epochcast-agent, GPM"
PLAIN = "epochcast-agent, plain NVML"
CASES = {
    f"{GPM}, default tiers": ("gpm", ""),
    f"{GPM}, every metric fast": ("gpm", EVERYTHING_FAST),
    f"{PLAIN}, default tiers": ("nvml", ""),
    f"{PLAIN}, every metric fast": ("nvml", EVERYTHING_FAST),
    "epochcast-agent, source `host`": ("host", ""),
}
OURS = f"{PLAIN}, default tiers"
COSTS = ("CPU (0.5 %)", "resident (55 MB)", "tick, mean", "tick, p99 (5 ms)", "lateness, p99", "missed ticks")
TOOLS = ("CPU", "values/s", "new values/s", "CPU per new value (spread)", "times ours over plain NVML (5)", "memory")
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
    command = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


@contextmanager
def running_peer(arguments: list[str], driver: Mapping[str, str]) -> Iterator[int]:
    """Run a peer until the block ends, on a terminal of its own, without which gpustat redraws slowly; yield its process id."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "watch.py").write_text(ZEUS)
        ours, theirs = pty.openpty()
        threading.Thread(target=swallow, args=(ours,), daemon=True).start()
        command = [VENV / "bin" / "python", *(part.format(folder=folder) for part in arguments)]
        with running(command, ready=lambda: delivered(driver)[0] >= WARM_VALUES, environment=driver, terminal=theirs) as pid:
            os.close(theirs)
            yield pid


def swallow(terminal: int) -> None:
    """Read what a peer shows until it ends."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 1 << 16):
            pass


def delivered(driver: Mapping[str, str]) -> tuple[int, int]:
    """How many new values, and how many in all, the stub has handed out."""
    new, values = struct.unpack("QQ", Path(driver["NVML_STUB_SCENARIO"] + ".delivered").read_bytes())
    return new, values


class Cost:
    """What a program and its descendants use from now until :meth:`stop`.

    Attributes:
        cpu: processor seconds per second.
        resident: bytes at the end.
        values, new: how many values the stub handed out per second, and of them those that were news.
    """

    def __init__(self, pid: int, driver: Mapping[str, str]) -> None:
        self._pid, self._driver = pid, driver
        self._before = self._read()

    def _read(self) -> tuple[float, ...]:
        return time.monotonic(), cpu_seconds(self._pid), *delivered(self._driver)

    def stop(self) -> None:
        """Count until now."""
        elapsed, cpu, new, values = (now - then for now, then in zip(self._read(), self._before, strict=True))
        self.cpu, self.new, self.values = cpu / elapsed, new / elapsed, values / elapsed
        self.resident = sum(one.resident for one in memory(self._pid).values())


@dataclass(frozen=True)
class Ticks:
    """An agent's ticks: mean length [ms], bounds that 99 % of lengths and latenesses stay under [ms], and the missed."""

    mean: float
    longest: float
    latest: float
    missed: float


def our_cost(source: str, settings: str, seconds: float) -> tuple[Cost, Ticks]:
    """Measure an agent of ours with these settings."""
    with stubbed_driver() as driver, running_agent(driver, settings, source=source) as agent:
        time.sleep(WARM_UP_S)
        before, cost = agent.figures(), Cost(agent.pid, driver)
        time.sleep(seconds)
        cost.stop()
        after = agent.figures()
    mean, longest = spread(before, after, "epochcast_agent_tick_seconds")
    _, latest = spread(before, after, "epochcast_agent_tick_lateness_seconds")
    missed = after["epochcast_agent_missed_ticks_total"] - before["epochcast_agent_missed_ticks_total"]
    return cost, Ticks(mean, longest, latest, missed)


def peer_cost(arguments: list[str], seconds: float) -> Cost:
    """Measure a peer."""
    with stubbed_driver() as driver, running_peer(arguments, driver) as pid:
        time.sleep(WARM_UP_S)
        cost = Cost(pid, driver)
        time.sleep(seconds)
        cost.stop()
    return cost


def tick_row(name: str, costs: Sequence[Cost], ticks: Sequence[Ticks]) -> tuple[str, ...]:
    """A line of the table of our own cost: medians of CPU and mean, the worst of the rest."""
    return (
        name,
        f"{median(cost.cpu for cost in costs):.2%}",
        f"{max(cost.resident for cost in costs) / 1e6:.1f} MB",
        f"{median(of.mean for of in ticks):.2f} ms",
        f"< {max(of.longest for of in ticks):g} ms",
        f"< {max(of.latest for of in ticks):g} ms",
        f"{sum(of.missed for of in ticks):.0f}",
    )


def tool_row(tool: str, costs: Sequence[Cost], ours: Sequence[Cost]) -> tuple[str, ...]:
    """A line of the table of tools: medians, and the least and most of CPU per new value."""
    each, own = ([1e6 * cost.cpu / cost.new for cost in some] for some in (costs, ours))
    return (
        tool,
        f"{median(cost.cpu for cost in costs):.2%}",
        f"{median(cost.values for cost in costs):.0f}",
        f"{median(cost.new for cost in costs):.0f}",
        f"{median(each):.1f} µs ({min(each):.1f} to {max(each):.1f})",
        "–" if tool.startswith(GPM) else f"{median(each) / median(own):.1f}",
        f"{max(cost.resident for cost in costs) / 1e6:.0f} MB",
    )


def measured(seconds: float, rounds: int) -> Iterator[str]:
    """Yield both tables."""
    costs: dict[str, list[Cost]] = defaultdict(list)
    ticks: dict[str, list[Ticks]] = defaultdict(list)
    peers = {requirement: arguments for requirement, arguments in PEERS.items() if installed(requirement)}
    for _ in range(rounds):
        for name, case in CASES.items():
            cost, of_agent = our_cost(*case, seconds)
            costs[name].append(cost)
            ticks[name].append(of_agent)
        for requirement, arguments in peers.items():
            costs[requirement.replace("==", " ")].append(peer_cost(arguments, seconds))
    yield from markdown_table(("(target)", *COSTS), (tick_row(name, costs[name], ticks[name]) for name in CASES))
    yield ""
    tools = (tool_row(tool, of, costs[OURS]) for tool, of in costs.items() if of[0].values)  # the host's reads none of the stub
    yield from markdown_table(("tool (target)", *TOOLS), tools)
    yield ""
    yield f"Medians of {rounds} rounds of {seconds:g} s each; memory, p99 and missed ticks are the worst of them. {machine()}."


def main() -> None:
    """Measure; print or write the tables."""
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="length of each measurement (default 30)")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each program (default 5)")
    arguments = parser.parse_args()
    publish(MEASUREMENTS, "agent_cost", measured(arguments.seconds, arguments.rounds), write=arguments.write)


if __name__ == "__main__":
    main()
