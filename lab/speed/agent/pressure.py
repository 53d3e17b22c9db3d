"""How many ticks the agent keeps where another job takes every CPU: by nice alone, by our unit, with the real-time drop-in.

    python -m lab.speed.agent.pressure [--seconds 60] [--loops 0 2 8 64] [--write]

A real agent on the stub libnvidia-ml, eight GPUs, default tiers. By nice alone it shares one control group with the loops, as
where it is run by hand or where none are used. By our unit it has Nice, CPUWeight and CPUQuota of the shipped unit, in a group
next to the job's, which has the weight that systemd gives any service; the drop-in adds its limit of real-time run time. Needs
root and the control group `cpu` of version 1, in which a weight of 100 is written as 1024 shares.
"""

import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab.speed.agent.stubbed import running_agent, spread, stubbed_driver
from lab.speed.page import MEASUREMENTS, ROOT, markdown_table, options, publish
from lab.speed.processes import Server, machine

GROUPS = Path("/sys/fs/cgroup/cpu")
AGENT, JOB = GROUPS / "epochcast-agent", GROUPS / "epochcast-job"
SETTLE_S = 3.0
CASES = ("by nice alone", "by our unit", "with the drop-in")
TARGETS = {0: ("100", "100"), 2: ("99", "99"), 8: ("90", "98"), 64: ("measured", "95")}
HEADER = ("busy loops", *CASES, "target by our unit; with the drop-in", "lateness, mean (p99), in the same order")


def unit_setting(name: str, file: str = "epochcast-agent.service") -> str:
    """The value of a setting in a shipped unit or drop-in."""
    (value,) = re.findall(rf"^{name}=(\S+)", (ROOT / "systemd" / file).read_text(), flags=re.MULTILINE)
    return str(value)


def make_groups() -> None:
    """Make the control groups of agent and job, as systemd would."""
    for group, weight in ((AGENT, int(unit_setting("CPUWeight"))), (JOB, 100)):
        group.mkdir(exist_ok=True)
        (group / "cpu.shares").write_text(str(1024 * weight // 100))
    period = int((AGENT / "cpu.cfs_period_us").read_text())
    (AGENT / "cpu.cfs_quota_us").write_text(str(period * int(unit_setting("CPUQuota").rstrip("%")) // 100))
    # Kernels that ration real time by group (CONFIG_RT_GROUP_SCHED) give a new group none.
    if (rationed := AGENT / "cpu.rt_runtime_us").exists():
        rationed.write_text((GROUPS / "cpu.rt_runtime_us").read_text())


@contextmanager
def started_in(group: Path, nice: int = 0) -> Iterator[None]:
    """Let what is started in the block have this group and niceness."""
    (group / "cgroup.procs").write_text(str(os.getpid()))
    os.setpriority(os.PRIO_PROCESS, 0, nice)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
        (GROUPS / "cgroup.procs").write_text(str(os.getpid()))


@contextmanager
def service(case: str) -> Iterator[Server]:
    """Run an agent as the case says."""
    with ExitStack() as stack:
        driver = stack.enter_context(stubbed_driver())
        with started_in(GROUPS if case == CASES[0] else AGENT, int(unit_setting("Nice"))):
            agent = stack.enter_context(running_agent(driver))
        yield agent


@contextmanager
def busy(loops: int, case: str) -> Iterator[None]:
    """Run so many loops that take all CPU time they get."""
    with started_in(GROUPS if case == CASES[0] else JOB):
        processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        time.sleep(SETTLE_S)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def kept(agent: Server, seconds: float) -> tuple[str, str]:
    """Share of ticks kept, of all that were due, and their lateness."""
    before = agent.figures()
    time.sleep(seconds)
    after = agent.figures()
    ticks, *lost = (
        after[f"epochcast_agent_{name}"] - before[f"epochcast_agent_{name}"]
        for name in ("tick_seconds_count", "missed_ticks_total", "governed_ticks_total")
    )
    mean, most = spread(before, after, "epochcast_agent_tick_lateness_seconds")
    return f"{ticks / (ticks + sum(lost)):.1%}", f"{mean:.1f} (< {most:g})"


def measured(seconds: float, numbers: list[int]) -> Iterator[str]:
    """Yield the table."""
    make_groups()
    answers = {}
    try:
        for case in CASES:
            if case == CASES[2]:
                # Root needs no LimitRTPRIO; the limit of run time is what turns real time on, here for all that follows.
                soft, hard = re.findall(r"(\d+)ms", unit_setting("LimitRTTIME", "real-time.conf"))
                resource.setrlimit(resource.RLIMIT_RTTIME, (1000 * int(soft), 1000 * int(hard)))
            with service(case) as agent:
                for number in numbers:
                    with busy(number, case):
                        answers[case, number] = kept(agent, seconds)
    finally:
        AGENT.rmdir()
        JOB.rmdir()
    rows = []
    for number in numbers:
        shares, lateness = zip(*(answers[case, number] for case in CASES), strict=True)
        rows.append((str(number), *shares, "; ".join(TARGETS.get(number, ())), f"{', '.join(lateness)} ms"))
    yield from markdown_table(HEADER, rows)
    yield ""
    yield f"{seconds:g} s of each, one run, {machine()}, Linux {os.uname().release}."


def main() -> None:
    """Measure; print or write the table."""
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each measurement (default 60)")
    parser.add_argument("--loops", type=int, nargs="+", default=[0, 2, 8, 64], help="numbers of busy loops (0 2 8 64)")
    arguments = parser.parse_args()
    if not os.access(GROUPS / "cgroup.procs", os.W_OK):
        print(f"Not measured: {GROUPS} is not there or not ours to write.")
        return
    publish(MEASUREMENTS, "agent_pressure", measured(arguments.seconds, arguments.loops), write=arguments.write)


if __name__ == "__main__":
    main()
