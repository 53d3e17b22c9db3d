"""Table VI of the DNN-occu paper: makespan and NVML utilisation by packing policy, for each slowdown that sharing may cost.

Run: python -m benchmarks.occupancy.modelled_table
     python -m benchmarks.occupancy.packing [--configurations CSV] [--write]      (parts `packing` and `packing_error`)
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

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
from epochcast.analyzer.backends.occupancy.packing.job_kinds import JobKind, job_kinds
from epochcast.analyzer.backends.occupancy.packing.job_stream import StreamShape
from epochcast.analyzer.backends.occupancy.packing.policies import PAPER, POLICIES
from epochcast.analyzer.backends.occupancy.packing.slowdown import ASSUMED
from epochcast.analyzer.figures.packing import gain_figure, packing_figure
from epochcast.regressor import load_catalog

from ..page import OCCUPANCY, markdown_table, options, publish
from .modelled_table import GPU, RESULTS

GPUS = 4
"""As many as the paper has."""
RUNS = 100
SEED = 0
LOADS = (0.5, 0.8, 1.2)
"""Of Poisson arrivals: alone-seconds that arrive per GPU-second."""
LONG = 200
"""Jobs of a long stream."""
STALLED = 0.5
"""Of the NVML utilisation in a stream that is made up: slot-packing has 46.6 % in the paper, and nearly 100 % if jobs do."""
ERRORS = (0.0, 0.1, 0.2, 0.5)
"""Mean relative errors of predicted occupancy."""

Kinds = Sequence[JobKind]


def kinds_of(path: Path, occupancy: str = "mean") -> Kinds:
    """Configurations that fit the GPU."""
    gpu = load_catalog().resolve(GPU)
    return [kind for kind in job_kinds(path, load_catalog(), gpu, occupancy).kinds if kind.memory <= gpu.memory]


def simulated(kinds: Kinds, policies: Sequence[str], shape: StreamShape | None = None, runs: int = RUNS, error: float = 0.0):
    """Rows of `compare`."""
    cluster = Cluster(GPUS, load_catalog().resolve(GPU).memory)
    return compare(streams(kinds, shape or StreamShape(), runs, SEED, error), cluster, chosen(policies), ASSUMED)


def table_vi(path: Path, draw: bool) -> Iterator[str]:
    """Policies under each curve, whether the paper's order holds, and other streams; ``draw`` also writes the picture."""
    kinds = kinds_of(path)
    occupancy, nvml = (_deciles([getattr(kind, name) for kind in kinds]) for name in ("occupancy", "nvml_utilisation"))
    yield (
        f"{RUNS} streams of {StreamShape().jobs} jobs that arrive at once on {GPUS} GPUs; {len(kinds)} configurations on "
        f"{GPU}. Their occupancy is {occupancy} (10th, 50th, 90th percentile), their NVML utilisation {nvml}. Predictions are "
        "right."
    )
    yield ""
    # with right predictions `interference` is the oracle
    rows = simulated(kinds, [name for name in POLICIES if name != "oracle"])
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
    yield ""
    yield from other_streams(kinds, kinds_of(path, "time_mean"))
    if draw:
        bars = [
            {curve: {one.policy: _bar(one.figures[name]) for one in summaries if one.slowdown == curve} for curve in ASSUMED}
            for name in ("makespan", "nvml_utilisation")
        ]
        yield ""
        yield f"![Makespan and NVML utilisation by policy]({OCCUPANCY.save_picture(packing_figure(*bars), 'packing')})"


def other_streams(kinds: Kinds, by_time: Kinds) -> Iterator[str]:
    """The gain of the paper's packing over slots where jobs arrive over time, in a long queue, and by another occupancy."""
    waiting = f"GPU busy {100 * STALLED:.0f} % as long (assumed)"
    shapes = {f"Poisson, load {load:g}": StreamShape(arrival_rate=load * GPUS / StreamShape().mean_duration) for load in LOADS}
    shapes |= {f"{LONG} jobs at once": StreamShape(jobs=LONG), "durations all alike": StreamShape(spread=0.0)}
    asked = [(name, shape, kinds) for name, shape in shapes.items()]
    asked += [
        ("occupancy weighted by time", StreamShape(), by_time),
        (waiting, StreamShape(), _stalled(kinds)),
        (f"both: weighted by time, {waiting}", StreamShape(), _stalled(by_time)),
    ]
    rows = []
    for name, shape, own in asked:
        gains = [one for one in summarise(simulated(own, PAPER, shape, RUNS // 2)) if one.policy != "slot"]
        rows.append((name, *(f"{100 * one.makespan_gain:+.1f} / {100 * one.utilisation_gain:+.1f}" for one in gains)))
    yield f"Gain in makespan / in NVML utilisation, per cent, of other streams ({RUNS // 2} runs):"
    yield ""
    yield from markdown_table(("streams", *(f"{one.slowdown}: {one.policy}" for one in gains)), rows)


def by_error(path: Path, draw: bool) -> Iterator[str]:
    """What errors of predicted occupancy cost; ``draw`` also writes the picture."""
    kinds, policies = kinds_of(path), ("occu", "interference")
    found: dict[tuple[str, str], list[Summary]] = {}
    for error in ERRORS:
        for one in summarise(simulated(kinds, policies, error=error)):
            if one.policy in policies:
                found.setdefault((one.slowdown, one.policy), []).append(one)
    yield (
        f"Gain in makespan over slot-packing run by run, per cent, and how many times as long a job runs as alone; {RUNS} "
        "streams as above, by the mean relative error of predicted occupancy:"
    )
    yield ""
    yield from markdown_table(
        ("slowdown: policy", *(f"{100 * error:.0f} %" for error in ERRORS)),
        [
            (
                f"{curve}: {policy}",
                *(f"{with_interval(one.run_gain, 100)}; x {one.figures['run_slowdown'].mean:.2f}" for one in own),
            )
            for (curve, policy), own in found.items()
        ],
    )
    if draw:
        drawn = {
            curve: {policy: np.array([_bar(one.run_gain) for one in found[curve, policy]]) for policy in policies}
            for curve in ASSUMED
        }
        yield ""
        yield f"![Gain by error of prediction]({OCCUPANCY.save_picture(gain_figure(ERRORS, drawn), 'packing_error')})"


def with_interval(mean: Mean, scale: float = 1.0) -> str:
    """A mean with half of its 95 % interval."""
    return f"{scale * mean.mean:.1f} ± {scale * (mean.high - mean.mean):.1f}"


def _stalled(kinds: Kinds) -> Kinds:
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


def _bar(mean: Mean) -> tuple[float, float, float]:
    return mean.mean, mean.low, mean.high


def _deciles(ratios: Sequence[float]) -> str:
    low, middle, high = (f"{100 * value:.0f}" for value in np.quantile(ratios, [0.1, 0.5, 0.9]))
    return f"{low}, {middle}, {high} %"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def main() -> None:
    """Both parts."""
    parser = options(__doc__)
    parser.add_argument("--configurations", type=Path, default=RESULTS, help="[default: those of modelled_table]")
    given = parser.parse_args()
    publish(OCCUPANCY, "packing", table_vi(given.configurations, given.write), write=given.write)
    publish(OCCUPANCY, "packing_error", by_error(given.configurations, given.write), write=given.write)


if __name__ == "__main__":
    main()
