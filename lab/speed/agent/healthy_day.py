"""Alerts on a healthy node: recorded scrapes of an agent with eight stub GPUs on a busy machine, repeated to a day.

    python -m lab.speed.agent.healthy_day [--seconds 3600] [--loops 8] [--nice 0] [--keep FILE]

Prometheus' own tool evaluates the shipped rules over them (`promtool test rules`). Every alert that fires is a false one.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from lab.speed.agent.stubbed import running_agent, stubbed_driver
from lab.speed.page import ROOT
from lab.speed.processes import Server

SCRAPE_S, DAY_S = 15, 86400
GPUS = 8
COUNTER = re.compile(r"_(total|count|sum|bucket)(\{|$)")
TIMESTAMP = re.compile(r"_timestamp_seconds(\{|$)")
TARGET = 'instance="n1",job="epochcast-agent"'


@contextmanager
def busy(loops: int, nice: int) -> Iterator[None]:
    """Run so many loops that take all CPU time they get."""
    processes = [subprocess.Popen(["nice", "-n", str(nice), sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def scrape(agent: Server, seconds: float) -> dict[str, list[float | None]]:
    """The values of each series of the page, every `SCRAPE_S`; timestamps count from the beginning."""
    series: dict[str, list[float | None]] = {}
    began = time.time()
    rounds = int(seconds / SCRAPE_S)
    for number in range(rounds):
        time.sleep(max(0.0, began + number * SCRAPE_S - time.time()))
        for line in agent.text("/metrics").splitlines():
            if line.startswith("#"):
                continue
            name, _, text = line.rpartition(" ")
            name = name.replace("}", f",{TARGET}}}") if name.endswith("}") else f"{name}{{{TARGET}}}"
            values = series.setdefault(name, [None] * number)
            values.append(float(text) - began if TIMESTAMP.search(name) else float(text))
        for values in series.values():
            values += [None] * (number + 1 - len(values))
    return series | {f"up{{{TARGET}}}": [1.0] * rounds}


def repeat(name: str, values: list[float | None], times: int) -> str:
    """The notation of promtool for these values so many times in a row, counters and timestamps going on."""
    known = [value for value in values if value is not None]
    step = 0.0
    if COUNTER.search(name):
        step = known[-1] - known[0] + (known[-1] - known[0]) / max(len(known) - 1, 1)
    elif TIMESTAMP.search(name):
        step = float(len(values) * SCRAPE_S)
    texts = ("_" if value is None else repr(value + number * step) for number in range(times) for value in values)
    return " ".join(texts)


def main() -> None:
    """Scrape, repeat, evaluate; exit 1 where an alert fired."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--loops", type=int, default=8)
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    with stubbed_driver() as driver, busy(arguments.loops, arguments.nice):
        os.setpriority(os.PRIO_PROCESS, 0, 5)  # as the shipped unit
        with running_agent(driver, f"gpus = {GPUS}\n", source="auto") as agent:
            time.sleep(2 * SCRAPE_S)
            series, load = scrape(agent, arguments.seconds), os.getloadavg()
    times = round(DAY_S / (SCRAPE_S * len(next(iter(series.values())))))
    test = {
        "rule_files": [str(ROOT / "dashboards" / "alerts.yml")],
        "evaluation_interval": f"{SCRAPE_S}s",
        "tests": [
            {
                "interval": f"{SCRAPE_S}s",
                "input_series": [{"series": name, "values": repeat(name, values, times)} for name, values in series.items()],
                "promql_expr_test": [
                    {"expr": 'max_over_time(ALERTS{alertstate="firing"}[1d])', "eval_time": "24h", "exp_samples": []}
                ],
            }
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.keep or Path(folder) / "day.yml"
        path.write_text(yaml.safe_dump(test, width=10**9))
        done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    print(done.stdout + done.stderr)
    gpu = sum('gpu="0"' in name for name in series)
    own = sum('gpu="' not in name for name in series) - 1
    print(
        f"{arguments.seconds:g} s, load {load[0]:.1f} {load[1]:.1f} {load[2]:.1f}: {gpu} series for GPU 0, {own} of the agent"
    )
    raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()
