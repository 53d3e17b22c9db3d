"""Put what `throughput.py` measured into docs/fleet.md, between its markers.

Run: python -m benchmarks.fleet.fleet_part RESULT.json...       (what `throughput.py --json RESULT.json` wrote; the first one's
runs are shown, of the others what a trace takes and what was found)
"""

import argparse
import json
from pathlib import Path
from typing import Any

from ..page import FLEET, markdown_table
from .against_truth import lines_of

FLEET_GPUS = 10_000

_RUNS = {"one": "1 process", "two": "2 processes", "dask": "Dask: scheduler, 2 workers"}
_ROWS = {
    "processor seconds per trace, all processes, start and report included": ("cpu_s_per_trace", "{:.2f}"),
    "GPU-hours per core-hour": ("gpu_hours_per_core_hour", "{:.0f}"),
    "seconds passed": ("wall_s", "{:.0f}"),
    "1-minute load of the machine when it ended": ("load", "{:.1f}"),
    "most memory (PSS): command [MB]": ("parent_mb", "{:.0f}"),
    "its largest worker [MB]": ("largest_mb", "{:.0f}"),
    "all processes together [MB]": ("all_mb", "{:.0f}"),
}


def lines(told: dict[str, Any]) -> list[str]:
    """The part, as lines of Markdown."""
    runs = [run for run in _RUNS if run in told]
    rows = [(title, *(form.format(told[run][key]) for run in runs)) for title, (key, form) in _ROWS.items()]
    hours = FLEET_GPUS * told["minutes"] / 60
    core_hours = FLEET_GPUS * told["trace_cpu_s"] / 3600
    written = [told["simulate"]["cpu_s"] / told["gpus"], told["simulate"]["bytes"] / told["gpus"] / 1e6]
    found = [
        f"*Simulated*: {told['gpus']} GPUs for {told['minutes']:g} minutes each, 26 metrics at 10 Hz, on a machine of "
        f"{told['cores']} cores (`python -m benchmarks.fleet.throughput`). Where others used it (its load), the seconds that "
        "passed are theirs too; processor seconds count.",
        "",
        *markdown_table(("", *(_RUNS[run] for run in runs)), rows),
        "",
        f"A trace takes {told['trace_cpu_s']:.2f} processor seconds in its worker, nearly all of it the search for epochs. "
        f"{FLEET_GPUS} such GPUs ({hours:.0f} GPU-hours), **extrapolated**: {core_hours:.1f} core-hours in the workers.",
    ]
    if "loop" in told:
        found[-1] += f" A plain loop over `epochcast detect`, a process for each trace: {told['loop']['cpu_s']:.1f} each."
    others = [_RUNS.get(run, "the run that was killed and resumed") for run in (*runs[1:], "killed") if run in told]
    if others:
        differ = {name for run in told if isinstance(told[run], dict) for name in told[run].get("differ", [])}
        said = f"differ in {', '.join(sorted(differ))}" if differ else "are equal"
        found += ["", f"The tables of one process and of {', '.join(others)} {said} (`cpu_s` aside)."]
    if "killed" in told:
        killed = told["killed"]
        found[-1] += (
            f" Of the run that was killed (SIGKILL) in the middle the next one took over {killed['taken_over']} of "
            f"{told['gpus']} traces, and did {killed['done_again']}."
        )
    return [
        *found,
        "",
        f"Writing such a fleet takes {written[0]:.2f} processor seconds and {written[1]:.2f} MB per GPU (Parquet, zstd).",
    ]


def beside_truth(told: dict[str, Any]) -> list[str]:
    """What was found in a fleet beside what is true of it, as lines of Markdown."""
    return [
        "",
        f"{told['gpus']} GPUs with {told['truth']['jobs']} jobs beside the truth, which the simulation knows "
        f"({told['trace_cpu_s']:.2f} processor seconds per trace):",
        "",
        *lines_of(told["truth"]),
    ]


def main() -> None:
    """Fill the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", type=Path, nargs="+")
    results = [json.loads(path.read_text(encoding="utf-8")) for path in parser.parse_args().result]
    FLEET.fill("fleet", [*lines(results[0]), *(line for told in results for line in beside_truth(told))])


if __name__ == "__main__":
    main()
