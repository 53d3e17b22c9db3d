"""What the analysis of a whole fleet costs: GPU-hours per core-hour, memory, and whether every way to run it tells the same.

Run: OMP_NUM_THREADS=1 python -m benchmarks.fleet.throughput [--gpus 256] [--minutes 10] [--runs one,two,dask,killed,loop]

Simulated telemetry (`epochcast fleet simulate`, one trace in fifty broken). The same traces are analysed by one process, by
two, by a Dask cluster (scheduler and two workers, processes of their own on the loopback), and by a run that is killed
(SIGKILL) in the middle and started again; their tables must be equal but for the processor time. Beside that a plain loop over
`epochcast detect`, a process for each trace, as one would write it in a shell. What was found is compared with the truth.
The 10 000 GPUs are extrapolated: processor seconds of a trace in its worker times their number.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from .against_truth import compared, lines_of
from .watched_run import Watched, cpu_seconds, watched

TABLES = ("gpus", "spans", "epochs", "jobs", "failures")
_FLEET = 10_000
_LOOPED = 8
_PATIENCE_S = 60.0


def analysed(fleet: Path, out: Path, *options: str, **more: Any) -> Watched:
    """One run of the analysis; it must answer, unless it was killed."""
    arguments = ["fleet", "analyze", str(fleet / "traces"), "--nodes", str(fleet / "nodes.csv"), "--out", str(out), "--json"]
    done = watched([*arguments, *options], fleet.parent, **more)
    if done.status > 0:
        raise SystemExit(f"the analysis ended with {done.status}: {done.errors}")
    return done


def differences(one: Path, other: Path) -> list[str]:
    """Names of the tables that differ in more than the processor time."""
    found = []
    for name in TABLES:
        tables = [pd.read_parquet(folder / f"{name}.parquet").drop(columns="cpu_s", errors="ignore") for folder in (one, other)]
        if not tables[0].equals(tables[1]):
            found.append(name)
    return found


@contextmanager
def cluster() -> Iterator[tuple[str, list[int]]]:
    """A Dask scheduler and two workers of one thread each, as real processes; gives its address and the workers' ids."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
    dask = [str(Path(sys.executable).with_name("dask"))]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    host, port = address.split(":")
    started = [subprocess.Popen([*dask, "scheduler", "--host", host, "--port", port, "--no-dashboard"], **quiet)]
    worker = ["worker", f"tcp://{address}", "--nthreads", "1", "--no-dashboard", "--host", host]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as scratch:
        started += [
            subprocess.Popen([*dask, *worker, "--local-directory", scratch], **quiet, env=environment) for _ in range(2)
        ]
        try:
            _answers(host, int(port))
            yield f"tcp://{address}", [process.pid for process in started]
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait()


def _answers(host: str, port: int) -> None:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex((host, port)) == 0:
                return
        time.sleep(0.2)
    raise SystemExit("the Dask scheduler has not begun to listen")


def by_dask(fleet: Path, out: Path) -> tuple[Watched, float]:
    """A run on the cluster, and the processor seconds of scheduler and workers."""
    with cluster() as (address, processes):
        done = analysed(fleet, out, "--scheduler", address, beside=processes)
        return done, cpu_seconds(processes)


def killed_and_resumed(fleet: Path, out: Path, traces: int) -> dict[str, Any]:
    """Kill a run once about half of the traces are kept, and start it again."""

    def kept() -> int:
        parts = (out / "parts").glob("[0-9]*.parquet")
        return sum(pq.read_metadata(part).num_rows for part in parts)

    def half() -> bool:
        return kept() >= traces / 2

    first = analysed(fleet, out, "--processes", "2", stop=half)
    had = kept()
    again = analysed(fleet, out, "--processes", "2")
    run = json.loads(again.output)["run"]
    return {
        "status": first.status,
        "kept": had,
        "cpu_s": first.cpu_s,
        "cpu_s_again": again.cpu_s,
        "taken_over": run["taken_over"],
        "done_again": run["done"],
    }


def looped(fleet: Path, count: int) -> dict[str, float]:
    """`epochcast detect` for a few traces, one process after the other."""
    paths = sorted((fleet / "traces").rglob("*.parquet"))
    paths = paths[:: max(1, len(paths) // count)][:count]
    runs = [watched(["detect", str(path), "--json"], fleet.parent) for path in paths]
    good = [run for run in runs if run.status == 0]
    return {"traces": len(good), "cpu_s": sum(run.cpu_s for run in good) / len(good)}


def load() -> str:
    """The machine's 1-minute load."""
    return Path("/proc/loadavg").read_text().split()[0]


def told_of(name: str, done: Watched, traces: int, hours: float, cpu_s: float | None = None) -> dict[str, float]:
    """The figures of a run, printed too."""
    cpu_s = done.cpu_s if cpu_s is None else cpu_s
    figures = {
        "wall_s": done.wall_s,
        "load": float(load()),
        "cpu_s": cpu_s,
        "cpu_s_per_trace": cpu_s / traces,
        "gpu_hours_per_core_hour": 3600 * hours / cpu_s,
        "parent_mb": done.parent_mb,
        "largest_mb": done.largest_mb,
        "all_mb": done.all_mb,
    }
    print(
        f"{name}: {done.wall_s:.0f} s passed (load {load()}), {cpu_s:.0f} CPU seconds, {cpu_s / traces:.2f} per trace, "
        f"{figures['gpu_hours_per_core_hour']:.0f} GPU-hours per core-hour; PSS at most {done.parent_mb:.0f} MB (parent), "
        f"{done.largest_mb:.0f} MB (a worker), {done.all_mb:.0f} MB (all)",
        flush=True,
    )
    return figures


def main() -> None:
    """Run what was asked for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=256)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--runs", default="one,two,dask,killed,loop", help="of these, by commas; the first is what others equal"
    )
    parser.add_argument("--json", type=Path, help="also for fleet_part.py, which writes docs/fleet.md")
    options = parser.parse_args()
    runs = options.runs.split(",")
    hours = options.gpus * options.minutes / 60
    told: dict[str, Any] = {"simulated": True, "gpus": options.gpus, "minutes": options.minutes, "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        fleet = base / "fleet"
        size = ["--gpus", str(options.gpus), "--minutes", str(options.minutes), "--seed", str(options.seed), "--broken", "0.02"]
        made = watched(["fleet", "simulate", "--out", str(fleet), *size, "--processes", "2", "--json"], base)
        told["simulate"] = {"cpu_s": made.cpu_s, "bytes": json.loads(made.output)["bytes"]}
        each = [told["simulate"]["cpu_s"] / options.gpus, told["simulate"]["bytes"] / options.gpus / 1e6]
        print(
            f"{options.gpus} GPUs x {options.minutes:g} min: written in {each[0]:.3f} CPU seconds and {each[1]:.2f} MB per GPU"
        )
        finished: list[str] = []
        for run in runs:
            out = base / run
            if run in ("one", "two"):
                done = analysed(fleet, out, "--processes", "1" if run == "one" else "2")
                told[run] = told_of(run, done, options.gpus, hours)
            elif run == "dask":
                done, cpu_s = by_dask(fleet, out)
                told[run] = told_of(run, done, options.gpus, hours, done.cpu_s + cpu_s)
            elif run == "killed":
                told[run] = killed_and_resumed(fleet, out, options.gpus)
                print(f"killed: {told[run]}", flush=True)
            elif run == "loop":
                told[run] = looped(fleet, _LOOPED)
                print(f"plain loop over detect: {told[run]['cpu_s']:.2f} CPU seconds per trace ({told[run]['traces']} traces)")
                continue
            finished.append(run)
            if run == finished[0]:
                told["truth"] = compared(fleet, out)
                told["trace_cpu_s"] = float(pd.read_parquet(out / "gpus.parquet")["cpu_s"].mean())
                print("\n".join(lines_of(told["truth"])))
                print(f"{told['trace_cpu_s']:.2f} CPU seconds of a trace are its reading, its epochs and its profile")
                print(f"{_FLEET} such GPUs, extrapolated: {told['trace_cpu_s'] * _FLEET / 3600:.1f} core-hours", flush=True)
            else:
                told[run]["differ"] = differences(base / finished[0], out)
                print(f"{run}: tables that differ from those of {finished[0]}: {told[run]['differ'] or 'none'}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
