"""Table VI of the DNN-occu paper: makespan and NVML utilisation by packing policy, for each slowdown that sharing may cost.

Run: python -m benchmarks.occupancy.packing_table_vi [--configurations CSV] [--gpu NAME] [--write]
    (fills docs/occupancy.md, part packing)
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from epochcast.analyzer.backends.occupancy.packing.experiment import (
    Cluster,
    Summary,
    chosen,
    compare,
    orderings,
    streams,
    summarise,
)
from epochcast.analyzer.backends.occupancy.packing.job_kinds import JobKind
from epochcast.analyzer.backends.occupancy.packing.job_stream import StreamShape
from epochcast.analyzer.backends.occupancy.packing.policies import PAPER, POLICIES
from epochcast.analyzer.figures.packing import packing_figure

from .packing_parts import GPUS, PAGE, RUNS, SEED, Workload, curves, markdown_table, with_interval, workload, write_part

LOADS = (0.5, 0.8, 1.2)
"""Of Poisson arrivals: alone-seconds that arrive per GPU-second."""
LONG = 200
"""Jobs of a long stream."""
STALLED = 0.5
"""Of the NVML utilisation in a stream that is made up: slot-packing has 46.6 % in the paper, and nearly 100 % if jobs do."""
FULL = 0.9
"""NVML utilisation of large batches in the paper's Figs. 2 and 6."""


def main() -> None:
    """Print the part; --write puts it and its picture into docs/occupancy.md."""
    write_part("packing", __doc__, part)


def part(options: argparse.Namespace) -> Sequence[str]:
    """Markdown of the part."""
    work = workload(options.configurations, options.gpu)
    nvml, occupancy = (np.array([getattr(kind, name) for kind in work.kinds]) for name in ("nvml_utilisation", "occupancy"))
    began = time.process_time()
    policies = chosen([name for name in POLICIES if name != "oracle"])  # with right predictions `interference` is the oracle
    rows = compare(streams(work.kinds, StreamShape(), RUNS, SEED), Cluster(GPUS, work.memory), policies, curves())
    seconds = time.process_time() - began
    summaries = summarise(rows)
    lines = [
        f"{RUNS} streams of {StreamShape().jobs} jobs that arrive at once on {GPUS} GPUs; {work.told}. Their occupancy is "
        f"{_range(occupancy)} (10th, 50th, 90th percentile), their NVML utilisation {_range(nvml)}; "
        f"{100 * (nvml >= FULL).mean():.0f} % have {100 * FULL:.0f} % and more. Predictions are right.",
        "",
        *markdown_table(
            ("slowdown: policy", "makespan, s", "sd", "gain", "NVML, %", "gain", "JCT / alone", "run / alone", "fastest in"),
            [_row(one) for one in summaries],
        ),
        "",
        *markdown_table(
            (
                "slowdown",
                "occu < nvml-util < slot",
                "in runs",
                "occu fastest of the three",
                "occu's NVML the highest",
                "in runs",
            ),
            [
                (
                    curve,
                    _yes(one.makespan),
                    f"{100 * one.makespan_runs:.0f} %",
                    f"{100 * one.occu_best_runs:.0f} %",
                    _yes(one.utilisation),
                    f"{100 * one.utilisation_runs:.0f} %",
                )
                for curve, one in orderings(rows).items()
            ],
        ),
        "",
        *_other_streams(work, workload(options.configurations, options.gpu, "time_mean")),
        "",
        f"{len(rows)} simulations took {seconds:.0f} s of one core.",
    ]
    if options.write:
        bars = [
            {curve: {one.policy: _bar(one, name) for one in summaries if one.slowdown == curve} for curve in curves()}
            for name in ("makespan", "nvml_utilisation")
        ]
        lines += ["", f"![Makespan and NVML utilisation by policy]({PAGE.save_picture(packing_figure(*bars), 'packing')})"]
    return lines


def _other_streams(work: Workload, by_time: Workload) -> list[str]:
    """The gain of the paper's packing over slots where jobs arrive over time, in a long queue, and by another occupancy."""
    rows = []
    shapes = {f"Poisson, load {load:g}": StreamShape(arrival_rate=load * GPUS / StreamShape().mean_duration) for load in LOADS}
    shapes |= {f"{LONG} jobs at once": StreamShape(jobs=LONG), "durations all alike": StreamShape(spread=0.0)}
    cluster = Cluster(GPUS, work.memory)
    asked = [(name, shape, work.kinds) for name, shape in shapes.items()]
    waiting = f"GPU busy {100 * STALLED:.0f} % as long (assumed)"
    asked += [
        ("occupancy weighted by time", StreamShape(), by_time.kinds),
        (waiting, StreamShape(), _stalled(work.kinds)),
        (f"both: weighted by time, {waiting}", StreamShape(), _stalled(by_time.kinds)),
    ]
    for name, shape, kinds in asked:
        found = summarise(compare(streams(kinds, shape, RUNS // 2, SEED), cluster, chosen(PAPER), curves()))
        rows.append((name, *(_gains(one) for one in found if one.policy != "slot")))
    header = ("streams", *(f"{curve}: {policy}" for curve in curves() for policy in PAPER if policy != "slot"))
    return [
        f"Gain in makespan / in NVML utilisation, per cent, of other streams ({RUNS // 2} runs):",
        "",
        *markdown_table(header, rows),
    ]


def _stalled(kinds: Sequence[JobKind]) -> list[JobKind]:
    """The same jobs where the GPU waits, for input say: no measurement, but slots are as idle as in the paper then."""
    return [replace(kind, nvml_utilisation=STALLED * kind.nvml_utilisation) for kind in kinds]


def _row(one: Summary) -> tuple[str, ...]:
    figures, slot = one.figures, one.policy == "slot"
    return (
        f"{one.slowdown}: {one.policy}",
        with_interval(figures["makespan"]),
        f"{figures['makespan'].sd:.1f}",
        "" if slot else f"{100 * one.makespan_gain:+.1f} %",
        with_interval(figures["nvml_utilisation"], 100),
        "" if slot else f"{100 * one.utilisation_gain:+.1f} %",
        f"{figures['jct_slowdown'].mean:.2f}",
        f"{figures['run_slowdown'].mean:.2f}",
        f"{100 * one.won:.0f} %",
    )


def _gains(one: Summary) -> str:
    return f"{100 * one.makespan_gain:+.1f} / {100 * one.utilisation_gain:+.1f}"


def _bar(one: Summary, name: str) -> tuple[float, float, float]:
    return one.figures[name].mean, one.figures[name].low, one.figures[name].high


def _range(ratios: np.ndarray) -> str:
    low, middle, high = (f"{100 * value:.0f}" for value in np.quantile(ratios, [0.1, 0.5, 0.9]))
    return f"{low}, {middle}, {high} %"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


if __name__ == "__main__":
    main()
