"""Table VI of the DNN-occu paper for random networks that trained on an A100: measured utilisation, occupancy and memory.

Durations are drawn and slowdowns assumed: neither was measured for these networks, each of which ran for a minute. The
occupancies that occu-packing goes by are measured, or predicted by trees fitted on other networks, or the mean of
other networks for all alike, so that a GPU takes equally many of all jobs.

Run: python -m lab.speed.occupancy.measured_packing [--write]      (part `measured-packing` of docs/occupancy.md)
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

from epochcast.analyzer.backends.occupancy.packing.jobs import GPU, JOBS, PackedJob, draw_streams, job_kind
from epochcast.analyzer.backends.occupancy.packing.simulation import (
    BASELINE,
    POLICIES,
    SLOWDOWNS,
    compare,
    mean_over_runs,
    orderings,
    summarise,
)
from epochcast.analyzer.charts import chart_figure
from epochcast.analyzer.plugins.chart import Chart, Line
from epochcast.regressor import load_catalog
from lab.occupancy.models import FittedTrees, Mean, Model
from lab.occupancy.training_jobs import TrainingJobs, read_training_jobs
from lab.speed.page import OCCUPANCY, markdown_table, options, public, publish

GPUS = 4
"""As many as the paper has."""
SEED = 0
STREAMS = {JOBS: 100, 200: 30}
"""How many streams of how many jobs."""
FOLDS = 8
PREDICTED, UNKNOWING = "occu, predicted", "occu, mean"
SHARING = tuple(POLICIES)[1:]
DIFFERENCES = (("nvml-util", BASELINE), ("occu", "nvml-util"), (PREDICTED, "occu"), (UNKNOWING, "occu"))
TABLES = ("occupancy/measured_cnn.csv.gz", "occupancy/measured_mlp.csv.gz")
DRAWN = "40 both"
"""The rows of the picture."""


def lines(*, draw: bool) -> Iterator[str]:
    """The jobs, makespan and NVML utilisation by policy, differences run by run, and whether the paper's order holds.

    Args:
        draw: also write the picture of :data:`DRAWN`.
    """
    gpu = load_catalog().resolve(GPU)
    jobs = read_training_jobs([public(table) for table in TABLES], load_catalog()).labelled("sm_occupancy")
    predicted = predictions(jobs, FittedTrees)  # logarithms: labels differ a hundredfold
    foretold = {PREDICTED: predicted, UNKNOWING: predictions(jobs, Mean)}
    drawn_from = mixes(jobs)
    sizes = " and ".join(f"{runs} streams of {count} jobs" for count, runs in STREAMS.items())
    yield f"{sizes}; all arrive at once on {GPUS} GPUs ({GPU})."
    yield ""
    for mix, rows in drawn_from.items():
        own, measured = jobs.points.iloc[rows], jobs.points["sm_occupancy"].to_numpy()[rows]
        errors = 100 * np.abs(predicted[rows] / measured - 1)
        yield (
            f"- {mix}: {len(rows)}; occupancy {deciles(measured)} (10th, 50th, 90th percentile), NVML utilisation "
            f"{deciles(own['nvml_utilisation'])}, memory {deciles(own['peak_memory'] / gpu.memory)} of a GPU; predicted "
            f"occupancy is off by {np.median(errors):.1f} % in the median, {errors.mean():.1f} % in the mean."
        )
    yield ""
    compared = {
        f"{count} {mix}: {curve}": of_curve
        for count, runs in STREAMS.items()
        for mix, rows in drawn_from.items()
        for curve, of_curve in packed(draw_streams(kinds(jobs, rows), runs, SEED, count), foretold, gpu.memory).groupby(
            "slowdown", sort=False
        )
    }
    yield from results(compared)
    if draw:
        drawn = summarise(pd.concat([rows for name, rows in compared.items() if name.startswith(DRAWN)]))
        yield ""
        yield f"![{DRAWN}: makespan, NVML utilisation]({OCCUPANCY.save_picture(packing_figure(drawn), 'packing')})"


def predictions(jobs: TrainingJobs, unfitted: Callable[[], Model]) -> NDArray[np.float64]:
    """Occupancy of each job, 0..1, shape (n,), by a fit that saw no network of the same layers."""
    occupancy, layers = jobs.points["sm_occupancy"].to_numpy(), jobs.points["layers"]
    answers = np.empty(len(occupancy))
    for train, test in GroupKFold(FOLDS, shuffle=True, random_state=SEED).split(occupancy, groups=layers):
        model = unfitted().fit([jobs.samples[row] for row in train], occupancy[train])
        answers[test] = model.predict([jobs.samples[row] for row in test])
    return np.minimum(answers, 1.0)


def mixes(jobs: TrainingJobs) -> dict[str, NDArray[np.intp]]:
    """Rows that streams are drawn from: networks with images, those without, and as many of either."""
    images = np.array([sample.configuration.image_size > 0 for sample in jobs.samples])
    cnn, mlp = np.flatnonzero(images), np.flatnonzero(~images)
    fewest, rng = min(len(cnn), len(mlp)), np.random.default_rng(SEED)
    halves = np.concatenate([rng.choice(rows, fewest, replace=False) for rows in (cnn, mlp)])
    return {"CNN": cnn, "MLP": mlp, "both": halves}


def kinds(jobs: TrainingJobs, rows: NDArray[np.intp]) -> list[PackedJob]:
    """What was measured of each row; its name is the number of the row."""
    table = jobs.points.iloc[rows][["sm_occupancy", "nvml_utilisation", "peak_memory"]]
    return [job_kind(str(row), *measured) for row, measured in zip(rows, table.to_numpy().tolist(), strict=True)]


def packed(measured: Sequence[Sequence[PackedJob]], foretold: Mapping[str, NDArray[np.float64]], memory: float) -> pd.DataFrame:
    """Rows of ``compare``: the paper's policies on streams by what was measured, and occu-packing of the same by predictions.

    Args:
        measured: streams of :func:`kinds`.
        foretold: by the name that occu-packing gets with them, occupancies 0..1 of the rows that kinds are named after.
        memory: bytes of each GPU.
    """
    compared = [compare(measured, GPUS, memory, POLICIES, SLOWDOWNS)]
    for name, predicted in foretold.items():
        jobs = [[replace(job, predicted_occupancy=float(predicted[int(job.kind)])) for job in stream] for stream in measured]
        compared.append(compare(jobs, GPUS, memory, {name: POLICIES["occu"]}, SLOWDOWNS))
    return pd.concat(compared, ignore_index=True)


def results(compared: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Tables with a row for each stream and slowdown, and a sentence on the paper's order."""
    means, differences = [], []
    against: dict[str, list[str]] = {"occu": [], PREDICTED: [], "nvml": []}
    for name, rows in compared.items():
        of, (order,) = {one["policy"]: one for one in summarise(rows)}, orderings(rows).values()
        (best,) = (one["won"] for one in summarise(rows[rows["policy"].isin(POLICIES)]) if one["policy"] == "occu")
        means.append(
            (
                name,
                *(f"{100 * of[policy]['makespan_gain']:+.1f} %" for policy in (*SHARING, PREDICTED, UNKNOWING)),
                *(f"{100 * of[policy]['figures']['nvml_utilisation']['mean']:.1f}" for policy in POLICIES),
                *(f"{of[policy]['figures']['run_slowdown']['mean']:.2f}" for policy in (*SHARING, UNKNOWING)),
            )
        )
        shares = (order["makespan_runs"], best, order["utilisation_runs"])
        pairs = (_with_sd(difference(rows, *pair)) for pair in DIFFERENCES)
        differences.append((name, *pairs, *(f"{100 * share:.0f} %" for share in shares)))
        for occu in ("occu", PREDICTED):
            if max(difference(rows, *pair)["high"] for pair in (("nvml-util", BASELINE), (occu, "nvml-util"))) >= 0:
                against[occu].append(name)
        if not order["utilisation"]:
            against["nvml"].append(name)
    gains = (f"{policy}: makespan" for policy in (*SHARING, PREDICTED, UNKNOWING))
    nvml = (f"{policy}: NVML, %" for policy in POLICIES)
    run = (f"{policy}: run / alone" for policy in (*SHARING, UNKNOWING))
    yield from markdown_table(("jobs: slowdown", *gains, *nvml, *run), means)
    yield ""
    yield "Makespans run by run, in percent of slot-packing's: mean ± half of its 95 % interval (standard deviation of runs):"
    yield ""
    orders = ("occu < nvml-util < slot in", "occu fastest in", "occu's NVML the highest in")
    yield from markdown_table(
        ("jobs: slowdown", *(f"{policy} - {other}" for policy, other in DIFFERENCES), *orders), differences
    )
    yield ""
    yield (
        "The paper's order of makespans (occu < nvml-util < slot) holds beyond the 95 % intervals in "
        f"{_but(compared, against['occu'])}; with predicted occupancies in {_but(compared, against[PREDICTED])}. "
        f"occu-packing's mean NVML utilisation is the highest of the three in {_but(compared, against['nvml'])}."
    )


def difference(rows: pd.DataFrame, policy: str, other: str) -> dict[str, float]:
    """Makespan of a policy less another's, run by run, as a ratio of slot-packing's."""
    makespan = rows.pivot_table(index="run", columns="policy", values="makespan")
    return mean_over_runs((makespan[policy] - makespan[other]) / makespan[BASELINE])


def packing_figure(results: Sequence[Mapping[str, Any]]) -> Figure:
    """Mean makespan and NVML utilisation, a group of bars per slowdown curve, as in Table VI of the DNN-occu paper.

    ``results`` are of :func:`~epochcast.analyzer.backends.occupancy.packing.simulation.summarise`.
    """
    panels: dict[str, list[Line]] = {"makespan, s": [], "NVML utilisation": []}
    for policy in dict.fromkeys(row["policy"] for row in results):
        own = [row for row in results if row["policy"] == policy]
        for lines, name in zip(panels.values(), ("makespan", "nvml_utilisation"), strict=True):
            means = [row["figures"][name] for row in own]
            middle, low, high = ([mean[end] for mean in means] for end in ("mean", "low", "high"))
            lines.append(Line(policy, [row["slowdown"] for row in own], middle, low, high))
    return chart_figure(Chart(panels, "slowdown of co-located jobs"))


def deciles(ratios: NDArray[np.float64] | pd.Series) -> str:
    """10th, 50th and 90th percentile in percent."""
    low, middle, high = (f"{100 * value:.0f}" for value in np.quantile(ratios, [0.1, 0.5, 0.9]))
    return f"{low}, {middle}, {high} %"


def _but(rows: Collection[str], left_out: Sequence[str]) -> str:
    return f"{len(rows) - len(left_out)} of {len(rows)} rows" + (f" (not: {'; '.join(left_out)})" if left_out else "")


def _with_sd(mean: Mapping[str, float]) -> str:
    """A mean with half of its 95 % interval, and the deviation of runs."""
    return f"{100 * mean['mean']:.1f} ± {100 * (mean['high'] - mean['mean']):.1f} ({100 * mean['sd']:.1f})"


if __name__ == "__main__":
    given = options(__doc__).parse_args()
    publish(OCCUPANCY, "measured-packing", lines(draw=given.write), write=given.write)
