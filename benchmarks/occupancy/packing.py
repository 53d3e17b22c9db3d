"""Table VI of the DNN-occu paper: makespan and NVML utilisation by packing policy, for each slowdown that sharing may cost.

`epochcast simulate-packing` gives the same, also of streams of other shapes and with errors of the predictions.

Run: python -m benchmarks.occupancy.modelled_table
     python -m benchmarks.occupancy.packing [--configurations CSV] [--write]      (part `packing` of docs/occupancy.md)
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from epochcast.analyzer.backends.occupancy.packing.experiment import (
    Cluster,
    Mean,
    Summary,
    chosen,
    compare,
    orderings,
    streams,
    summarise,
)
from epochcast.analyzer.backends.occupancy.packing.job_kinds import job_kinds
from epochcast.analyzer.backends.occupancy.packing.job_stream import StreamShape
from epochcast.analyzer.backends.occupancy.packing.policies import POLICIES
from epochcast.analyzer.backends.occupancy.packing.slowdown import ASSUMED
from epochcast.analyzer.figures.packing import packing_figure
from epochcast.regressor import load_catalog

from ..page import OCCUPANCY, markdown_table, options, publish
from .modelled_table import GPU, RESULTS

GPUS = 4
"""As many as the paper has."""
RUNS = 100
SEED = 0
LONG = 200
"""Jobs of a long stream."""


def table_vi(path: Path, draw: bool) -> Iterator[str]:
    """Policies under each curve, and whether the paper's order holds; ``draw`` also writes the picture."""
    gpu = load_catalog().resolve(GPU)
    table = job_kinds(path, load_catalog(), gpu)
    kinds = [kind for kind in table.kinds if kind.memory <= gpu.memory]
    occupancy, nvml = (deciles([getattr(kind, name) for kind in kinds]) for name in ("occupancy", "nvml_utilisation"))
    yield (
        f"{RUNS} streams of {StreamShape().jobs} jobs that arrive at once on {GPUS} GPUs; {len(kinds)} configurations with "
        f"{table.labels} occupancies on {GPU}. Their occupancy is {occupancy} (10th, 50th, 90th percentile), their NVML "
        f"utilisation {nvml}. Predictions are right."
    )
    yield ""
    policies = chosen([name for name in POLICIES if name != "oracle"])  # with right predictions `interference` is the oracle
    rows = compare(streams(kinds, StreamShape(), RUNS, SEED), Cluster(GPUS, gpu.memory), policies, ASSUMED)
    summaries = summarise(rows)
    yield from markdown_table(
        ("slowdown: policy", "makespan, s", "sd", "gain", "NVML, %", "gain", "JCT / alone", "run / alone", "fastest in"),
        [_row(one) for one in summaries],
    )
    yield ""
    yield from markdown_table(
        ("slowdown", "occu < nvml-util < slot", "in runs", "occu fastest of the three", "occu's NVML the highest", "in runs"),
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
    )
    if draw:
        bars = [
            {curve: {one.policy: _bar(one.figures[name]) for one in summaries if one.slowdown == curve} for curve in ASSUMED}
            for name in ("makespan", "nvml_utilisation")
        ]
        yield ""
        yield f"![Makespan and NVML utilisation by policy]({OCCUPANCY.save_picture(packing_figure(*bars), 'packing')})"


def with_interval(mean: Mean, scale: float = 1.0) -> str:
    """A mean with half of its 95 % interval."""
    return f"{scale * mean.mean:.1f} ± {scale * (mean.high - mean.mean):.1f}"


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


def _bar(mean: Mean) -> tuple[float, float, float]:
    return mean.mean, mean.low, mean.high


def deciles(ratios: ArrayLike) -> str:
    """10th, 50th and 90th percentile in per cent."""
    low, middle, high = (f"{100 * value:.0f}" for value in np.quantile(ratios, [0.1, 0.5, 0.9]))
    return f"{low}, {middle}, {high} %"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def main() -> None:
    """Print the part."""
    parser = options(__doc__)
    parser.add_argument("--configurations", type=Path, default=RESULTS, help="[default: those of modelled_table]")
    given = parser.parse_args()
    publish(OCCUPANCY, "packing", table_vi(given.configurations, given.write), write=given.write)


if __name__ == "__main__":
    main()
