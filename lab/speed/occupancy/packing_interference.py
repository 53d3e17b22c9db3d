"""Rules that predict how much measured pairs of jobs slow down, and packing by them (Gavel's pairs: K80, P100; no occupancy).

There is no occupancy and no utilisation in these measurements, so the policies of the paper have nothing to go by here. What
is known of a job that was never co-located with others is its throughput alone, the name of its model, and - one measurement
more - its slowdown next to a second copy of itself.

Run: python -m lab.speed.occupancy.packing_interference [--write]      (part `interference` of docs/occupancy.md)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epochcast.analyzer.backends.occupancy.packing.jobs import PackedJob, draw_streams, job_kind
from epochcast.analyzer.backends.occupancy.packing.simulation import (
    BASELINE,
    PackedGpu,
    Placement,
    Policy,
    Slowdown,
    mean_over_runs,
    simulate,
    slot,
)
from lab.speed.occupancy.measured_packing import GPUS, SEED, STREAMS, sizes, with_interval
from lab.speed.page import OCCUPANCY, markdown_table, options, public, publish

PROTOCOLS = {"types": ("job", "other"), "models": ("model", "other_model")}
"""What is left out of the fit with a pair: all pairs of either type (model and batch size), all pairs of either model."""

TIME_SLICING = 2.0
"""Two jobs take turns: each takes twice as long."""

_PENALTIES = np.logspace(-2, 3, 11)  # of ridge regression, from none to all; cross-validation chooses
_ROUNDING = 1e-9  # a gain below it is none


@dataclass(frozen=True)
class Pairs:
    """What was measured on one GPU.

    Attributes:
        gpu: its name.
        views: two rows for each pair that ran, one from either job's view (one for a job next to itself): ``job``, ``other``
            (types), ``model``, ``other_model``, ``alone``, ``other_alone`` (steps per second) and ``slowdown`` (alone over
            co-located throughput).
        types: types that run alone.
        left_out: rows of the file that are not among the views, by reason.
    """

    gpu: str
    views: pd.DataFrame
    types: tuple[str, ...]
    left_out: Mapping[str, int]


def read_pairs(path: Path) -> Iterator[Pairs]:
    """By GPU. Jobs of several GPUs did not run in this table; throughput 0 is mostly too little memory."""
    for gpu, rows in pd.read_csv(path).groupby("gpu"):
        several = rows[["sf_a", "sf_b"]].max(axis=1) > 1
        not_alone = ~several & (rows[["iso_a", "iso_b"]] == 0).any(axis=1)
        not_together = ~several & ~not_alone & (rows[["co_a", "co_b"]] == 0).any(axis=1)
        reasons = {
            "of several GPUs": several,
            "with a job that does not run alone": not_alone,
            "that did not run together": not_together,
        }
        yield Pairs(
            str(gpu).upper(),
            _views(rows[~several & ~not_alone & ~not_together]),
            tuple(sorted(rows["job_a"][~several & ~not_alone].unique())),
            {reason: int(left_out.sum()) for reason, left_out in reasons.items()},
        )


def _views(rows: pd.DataFrame) -> pd.DataFrame:
    """Either job's view of each pair, once: the file has pairs in both orders, some of them in one alone."""
    sides = [
        pd.DataFrame(
            {
                "job": rows[f"job_{own}"],
                "other": rows[f"job_{other}"],
                "alone": rows[f"iso_{own}"],
                "other_alone": rows[f"iso_{other}"],
                "slowdown": rows[f"iso_{own}"] / rows[f"co_{own}"],
            }
        )
        for own, other in (("a", "b"), ("b", "a"))
    ]
    views = pd.concat(sides).drop_duplicates(["job", "other"]).sort_values(["job", "other"], ignore_index=True)
    # ``ResNet-18 (batch size 32)`` is a ``ResNet-18``
    models = (views[side].str.replace(r" \(.*", "", regex=True) for side in ("job", "other"))
    return views.assign(**dict(zip(("model", "other_model"), models, strict=True)))


def step_rates(views: pd.DataFrame) -> NDArray[np.float64]:
    """Both throughputs alone, as logarithms with squares and product: who has short steps waits longer for its turn."""
    rates = _rates(views)
    return np.column_stack([rates, *(rates[:, i] * rates[:, j] for i, j in combinations_with_replacement(range(2), 2))])


def model(views: pd.DataFrame) -> NDArray[np.float64]:
    """As :func:`step_rates`, and which model either is; a model that is not in the fit has no column."""
    is_one = (views[side] == name for side in ("model", "other_model") for name in sorted(set(views[side])))
    return np.column_stack([step_rates(views), *is_one])


def self_pair(views: pd.DataFrame) -> NDArray[np.float64]:
    """Throughputs alone and the slowdowns of both next to themselves, as logarithms.

    How far two copies stay below a slowdown of two says how much of the GPU a type leaves to others. A type whose two copies do
    not fit the memory is taken to leave nothing.
    """
    own = views[views["job"] == views["other"]].set_index("job")["slowdown"]
    return np.column_stack([_rates(views), *(np.log(views[side].map(own).fillna(TIME_SLICING)) for side in ("job", "other"))])


def _rates(views: pd.DataFrame) -> NDArray[np.float64]:
    return np.asarray(np.log(views[["alone", "other_alone"]].to_numpy(dtype=float)))


RULES: dict[str, Callable[[pd.DataFrame], NDArray[np.float64]]] = {
    "step rates": step_rates,
    "model": model,
    "self-pair": self_pair,
}
"""What each rule knows of the views, for ridge regression to the logarithm of the slowdown."""


def predictions(views: pd.DataFrame, rule: str, protocol: str) -> NDArray[np.float64]:
    """Slowdown of each view, 1 or more, shape (n,), as the rule says that was fitted without the pair and its like."""
    features, target = RULES[rule](views), np.log(views["slowdown"].to_numpy(dtype=float))
    one, two = (views[column].to_numpy() for column in PROTOCOLS[protocol])
    answers = np.full(len(views), np.nan)
    for a, b in sorted({(min(pair), max(pair)) for pair in zip(one, two, strict=True)}):
        test = ((one == a) & (two == b)) | ((one == b) & (two == a))
        fit = ~(np.isin(one, [a, b]) | np.isin(two, [a, b]))
        fitted = make_pipeline(StandardScaler(), RidgeCV(_PENALTIES)).fit(features[fit], target[fit])
        answers[test] = fitted.predict(features[test])
    return np.asarray(np.maximum(1.0, np.exp(answers)))


def scores(views: pd.DataFrame, predicted: NDArray[np.float64]) -> tuple[str, ...]:
    """Of pairs of two types (a rule knows each next to itself): errors of the slowdown, share of pairs of which it says rightly
    whether they gain, that is get more done than either alone, and throughput of those that it would co-locate."""
    different = (views["job"] != views["other"]).to_numpy()
    measured, guess = views["slowdown"].to_numpy(dtype=float)[different], predicted[different]
    error = 100 * np.abs(guess / measured - 1)
    totals = throughputs(views[different], measured, guess)
    chosen = totals["measured"][totals["guess"] > 1]
    rightly = ((totals["measured"] > 1) == (totals["guess"] > 1)).mean()
    throughput = f"{chosen.mean():.3f} ({len(chosen)})" if len(chosen) else "none"
    return f"{error.mean():.1f}", f"{np.median(error):.1f}", f"{100 * rightly:.0f} %", throughput


def throughputs(views: pd.DataFrame, measured: NDArray[np.float64], guess: NDArray[np.float64]) -> pd.DataFrame:
    """Of each pair, relative to alone: columns ``measured`` and ``guess``."""
    names = np.sort(views[["job", "other"]].to_numpy(dtype=str), axis=1)
    rates = pd.DataFrame({"one": names[:, 0], "two": names[:, 1], "measured": 1 / measured, "guess": 1 / guess})
    return rates.groupby(["one", "two"]).sum()


def pair_slowdown(views: pd.DataFrame, slowdown: NDArray[np.float64]) -> Slowdown:
    """Slowdowns of pairs as a curve for the simulation; pairs that are not among the views, and any three jobs, cannot run."""
    known = dict(zip(zip(views["job"], views["other"], strict=True), slowdown.tolist(), strict=True))

    def curve(jobs: Sequence[PackedJob]) -> Sequence[float]:
        if len(jobs) < 2:
            return [1.0] * len(jobs)
        if len(jobs) > 2:
            return [np.inf] * len(jobs)
        one, two = (job.kind for job in jobs)
        return [known.get((one, two), np.inf), known.get((two, one), np.inf)]

    return curve


def total_rate(slowdown: Slowdown, jobs: Sequence[PackedJob]) -> float:
    """Throughput of a GPU: seconds alone that its jobs get done in a second, together."""
    return sum(1 / each for each in slowdown(jobs))


def by_gain(belief: Slowdown) -> Policy:
    """An idle GPU takes the first job; else co-locate where ``belief`` says that most throughput is gained, if any."""

    def policy(queue: Sequence[PackedJob], gpus: Sequence[PackedGpu]) -> Placement | None:
        if (placement := slot(queue, gpus)) is not None:
            return placement
        best, most = None, _ROUNDING
        first: dict[str, int] = {}  # of each kind: a long queue holds few
        for position, job in enumerate(queue):
            first.setdefault(job.kind, position)
        for index, gpu in enumerate(gpus):
            now = total_rate(belief, gpu.jobs)
            for position in first.values():
                gain = total_rate(belief, [*gpu.jobs, queue[position]]) - now
                if gain > most:
                    best, most = (position, index), gain
        return best

    return policy


def random_pair(allowed: Slowdown, rng: np.random.Generator) -> Policy:
    """Co-locate at random: an idle GPU takes the first job, any other one a random job that can run there at all."""

    def policy(queue: Sequence[PackedJob], gpus: Sequence[PackedGpu]) -> Placement | None:
        if (placement := slot(queue, gpus)) is not None:
            return placement
        can = [
            (position, index)
            for index, gpu in enumerate(gpus)
            for position, job in enumerate(queue)
            if total_rate(allowed, [*gpu.jobs, job]) > 0
        ]
        return can[rng.integers(len(can))] if can else None

    return policy


def packed(pairs: Pairs, protocol: str, count: int, runs: int) -> pd.DataFrame:
    """Rows as of ``experiment.compare``: slot-packing, random pairs, packing by each rule and by the measured slowdown itself.

    Streams are drawn evenly from the types that run alone. A rule's prediction of a pair comes from a fit that left it and its
    like out, so that a stream holds no pair that a rule saw.
    """
    kinds = [job_kind(name, occupancy=0.0, nvml_utilisation=0.0, memory=0.0) for name in pairs.types]
    measured = pair_slowdown(pairs.views, pairs.views["slowdown"].to_numpy(dtype=float))
    beliefs = {rule: pair_slowdown(pairs.views, predictions(pairs.views, rule, protocol)) for rule in RULES}
    policies: dict[str, Callable[[], Policy]] = {
        BASELINE: lambda: slot,
        "random pairs": lambda: random_pair(measured, np.random.default_rng(SEED)),  # again for each stream
        **{name: partial(by_gain, belief) for name, belief in (beliefs | {"oracle": measured}).items()},
    }
    drawn = draw_streams(kinds, runs, SEED, count)
    return pd.DataFrame(
        [
            {"slowdown": "measured", "policy": name, "run": run, **simulate(jobs, GPUS, 1.0, policy(), measured)[0]}
            for name, policy in policies.items()
            for run, jobs in enumerate(drawn)
        ]
    )


def lines() -> Iterator[str]:
    """What is in the table, how well rules do on pairs that they did not see, and what packing by them gains."""
    every = list(read_pairs(public("occupancy/gavel_pairs.csv.gz")))
    rows = []
    gains: list[tuple[str, ...]] = []
    for pairs in every:
        views, measured = pairs.views, pairs.views["slowdown"].to_numpy(dtype=float)
        different = (views["job"] != views["other"]).to_numpy()
        totals = throughputs(views[different], measured[different], measured[different])["measured"]
        reasons = ", ".join(f"{count} {reason}" for reason, count in pairs.left_out.items())
        yield (
            f"- {pairs.gpu}: {len(totals)} pairs of two of {len(pairs.types)} types, {100 * (totals > 1).mean():.0f} % "
            f"of which gain (get more done together than either alone); left out of the table's rows: {reasons}."
        )
        rows.append((f"{pairs.gpu}: time slicing", *scores(views, np.full(len(views), TIME_SLICING))))
        for protocol in PROTOCOLS:
            rows += [(f"{pairs.gpu}, {protocol}: {rule}", *scores(views, predictions(views, rule, protocol))) for rule in RULES]
            gains += _gains(pairs, protocol)
    yield ""
    yield from markdown_table(("left out: rule", "MAPE %", "median %", "decided rightly", "throughput of chosen"), rows)
    yield ""
    yield f"Gain over slot-packing, percent, on {GPUS} GPUs; all jobs arrive at once, {sizes()}:"
    yield ""
    header = [name for count in STREAMS for name in (f"{count} jobs: makespan", "sd", "mean JCT")]
    yield from markdown_table(("left out: policy", *header), gains)


def _gains(pairs: Pairs, protocol: str) -> Iterator[tuple[str, ...]]:
    cells: dict[str, list[str]] = {}
    for count, runs in STREAMS.items():
        rows = packed(pairs, protocol, count, runs)
        makespan, jct = (rows.pivot_table(index="run", columns="policy", values=name) for name in ("makespan", "jct"))
        for policy in (name for name in rows["policy"].unique() if name != BASELINE):
            gain = mean_over_runs(1 - makespan[policy] / makespan[BASELINE])
            sooner = 1 - jct[policy].mean() / jct[BASELINE].mean()
            own = (with_interval(gain, 100), f"{100 * gain['sd']:.1f}", f"{100 * sooner:+.1f}")
            cells.setdefault(policy, []).extend(own)
    for policy, values in cells.items():
        if policy in RULES:
            yield f"{pairs.gpu}, {protocol}: {policy}", *values
        elif protocol == "types":  # no rule: the same for either protocol
            yield f"{pairs.gpu}: {policy}", *values


if __name__ == "__main__":
    publish(OCCUPANCY, "interference", lines(), write=options(__doc__).parse_args().write)
