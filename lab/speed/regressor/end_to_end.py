"""From a simulated trace to the answer: the detector's epochs against the true ones, on the same rows.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.end_to_end [--rows 240] [--write]     (a quarter of an hour)

For public rows, drawn evenly over source GPUs and epoch lengths, a job is simulated that has the row's epoch length and its
statistics (`simulated_rows.py`). Its trace goes the product's own way: detector, profile, prediction by a model that was fitted
without the row's workload (protocol P2), against the measured seconds on the other GPU. Next to it the same trace with the true
epochs and the measured epoch length. Where the detector finds no epochs, or steps, the answer is the ratio: its error counts.
The precision is the row's, declared: the simulator's tensor cores know nothing of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from epochcast.analyzer.jobs.sources import profile_of
from epochcast.regressor import Catalog, LatencyPredictor, load_catalog
from epochcast.regressor.pairs import Pair, actual_ratio
from epochcast.regressor.protocols import splits
from epochcast.regressor.summary import summarise
from lab.simulator import CLASSES
from lab.speed.page import REGRESSOR, markdown_table, options, publish
from lab.speed.regressor.public_pairs import SEED, PublicPairs
from lab.speed.regressor.simulated_rows import AMBIGUOUS, SLOW, TELEMETRY, SimulatedRow, simulate_row

BANDS = {"under 1.5 s": 1.5, "1.5 to 4 s": 4.0, "4 to 10 s": 10.0, "over 10 s": np.inf}
UNITS = {"epoch": "epochs", "cycle": "cycles", "step": "steps", "none": "ratio alone"}
ERRORS = ("true epoch", "detected", "difference", "held, true", "held, detected")
_RIGHT = 0.05
_SHORTEST_S = 4.0  # what is shorter is a step to the detector, even if the user calls it an epoch
_RESAMPLES = 2000


def band_of(epoch_s: float) -> str:
    """The name of the band that an epoch's length falls into."""
    return next(name for name, upper in BANDS.items() if epoch_s < upper)


def choose(pairs: Sequence[Pair], count: int) -> list[list[Pair]]:
    """About `count` rows, as many of each source GPU and band; each as the list of its pairs."""
    by_row: dict[int, list[Pair]] = {}
    for pair in pairs:
        by_row.setdefault(id(pair.source), []).append(pair)
    strata: dict[tuple[str, str], list[list[Pair]]] = {}
    for row in by_row.values():
        strata.setdefault((row[0].source_gpu.name, band_of(row[0].source.epoch_s or 0.0)), []).append(row)
    rng = np.random.default_rng(SEED)
    each = max(1, round(count / len(strata)))
    return [rows[i] for _, rows in sorted(strata.items()) for i in rng.permutation(len(rows))[:each]]


def simulate(rows: Sequence[Sequence[Pair]]) -> Iterator[tuple[Sequence[Pair], SimulatedRow]]:
    """A job per row; classes and telemetry take turns, a class only where its epochs are about as long as the row's."""
    classes = [name for name, spec in CLASSES.items() if spec.training and name not in AMBIGUOUS + SLOW]
    rng = np.random.default_rng([SEED, 1])
    for number, pairs in enumerate(rows):
        for name in rng.permutation(classes):
            simulated = simulate_row(pairs[0].source, str(name), TELEMETRY[number % len(TELEMETRY)], int(rng.integers(2**31)))
            if simulated is not None:
                yield pairs, simulated
                break


def predictors(pairs: Sequence[Pair], catalog: Catalog) -> dict[str, LatencyPredictor]:
    """Workload -> a predictor trained without it (P2), with the intervals that it gives itself."""
    by_workload = {}
    for train, test in splits(pairs, "P2", SEED):
        profiles = {id(pairs[row].source): pairs[row].source for row in train.tolist()}
        predictor = LatencyPredictor.fit(list(profiles.values()), catalog)
        by_workload.update(dict.fromkeys((pairs[row].source.workload or "" for row in test.tolist()), predictor))
    return by_workload


def outcomes(pairs: Sequence[Pair], simulated: SimulatedRow, predictor: LatencyPredictor) -> Iterator[dict[str, object]]:
    """One record per target GPU: relative errors with the true epoch and with the detected one, and what was found.

    ``pairs`` are the row as a source, with each GPU that its workload was measured on.
    """
    row, trace = pairs[0].source, simulated.trace
    assert row.epoch_s is not None
    marked = summarise(row.gpu, trace.time, trace.metrics(), simulated.spans, simulated=True)
    true = replace(marked, epoch_s=row.epoch_s, epoch_s_low=None, epoch_s_high=None, precision=row.precision)
    found = replace(profile_of(trace, predictor.catalog)[0], precision=row.precision)
    gpus = [pair.target_gpu.name for pair in pairs]
    answers_to = [predictor.predict(profile, gpus) for profile in (row, true, found)]
    by_gpu = [{answer.gpu: answer for answer in answers} for answers in answers_to]
    for pair, actual in zip(pairs, actual_ratio(pairs), strict=True):
        own, by_true, ours = (answers[pair.target_gpu.name] for answers in by_gpu)
        seconds, low, high = (ratio * row.epoch_s for ratio in (ours.ratio, ours.ratio_low, ours.ratio_high))
        if found.unit == "epoch" and ours.seconds is not None and ours.low is not None and ours.high is not None:
            seconds, low, high = ours.seconds, ours.low, ours.high
        target_s = float(actual) * row.epoch_s
        yield {
            "workload": row.workload,
            "source": pair.source_gpu.name,
            "telemetry": simulated.telemetry,
            "band": band_of(row.epoch_s),
            "epoch_s": row.epoch_s,
            "unit": found.unit or "none",
            "length": np.nan if found.epoch_s is None else found.epoch_s / row.epoch_s - 1,
            "public": abs(own.ratio / actual - 1),
            "true": abs(by_true.ratio / actual - 1),
            "found": abs(seconds / target_s - 1),
            "true_held": by_true.ratio_low <= actual <= by_true.ratio_high,
            "found_held": low <= target_s <= high,
        }


def cells(name: str, part: pd.DataFrame) -> tuple[str, ...]:
    """One line: n, how it was answered, errors with the true and with the detected epoch, their difference, coverage."""
    true, found = 100 * part["true"], 100 * part["found"]
    return (
        name,
        f"{len(part)}",
        *(f"{np.mean(part.unit == unit):.0%}" for unit in UNITS),
        f"{true.mean():.2f} ({true.median():.2f})",
        f"{found.mean():.2f} ({found.median():.2f})",
        f"{found.mean() - true.mean():+.2f}",
        f"{part.true_held.mean():.0%}",
        f"{part.found_held.mean():.0%}",
    )


def difference(name: str, part: pd.DataFrame) -> str:
    """The difference of the errors in points, with a 90 % interval from resampled workloads."""
    sums = (100 * (part.found - part.true)).groupby(part.workload).agg(["sum", "size"]).to_numpy()
    drawn = np.random.default_rng(SEED).integers(len(sums), size=(_RESAMPLES, len(sums)))
    low, high = np.quantile(sums[drawn, 0].sum(axis=1) / sums[drawn, 1].sum(axis=1), [0.05, 0.95])
    mean = 100 * (part.found - part.true).mean()
    return f"- Difference in points, {name}: {mean:+.2f}; other workloads drawn (90 %): {low:+.2f} to {high:+.2f}."


def lines(count: int) -> Iterator[str]:
    """All figures as Markdown."""
    pairs, catalog = PublicPairs.load().pairs, load_catalog()
    by_workload = predictors(pairs, catalog)
    jobs = list(simulate(choose(pairs, count)))
    table = pd.DataFrame([record for job in jobs for record in outcomes(*job, by_workload[job[0][0].source.workload or ""])])
    yield (
        f"Simulated traces of {len(jobs)} public rows, {len(table)} pairs, {table.workload.nunique()} workloads; measured "
        "seconds. Errors in percent: mean (median); held: share of pairs inside the 90 % interval. Recorded traces of "
        "CPUs are not included, because their telemetry has no GPU metric."
    )
    yield ""
    nameable = table[table.epoch_s >= _SHORTEST_S]
    parts = {"all": table, f"true epochs from {_SHORTEST_S:g} s": nameable}
    groups = {f"{by} {name}": part for by in ("unit", "source", "band", "telemetry") for name, part in table.groupby(by)}
    rows = [cells(name, part) for name, part in (parts | groups).items()]
    yield from markdown_table(("rows", "pairs", *UNITS.values(), *ERRORS), rows)
    yield ""
    yield from (difference(name, part) for name, part in parts.items())
    yield f"- Error with the public row's own statistics instead of the trace's: {100 * table.public.mean():.2f} %."
    for unit in ("epoch", "step"):
        off = table.length[table.unit == unit].abs()
        within = f"{np.mean(off <= _RIGHT):.0%} of the pairs within {_RIGHT:.0%}"
        yield f"- Length of a detected {unit} against the true epoch: {within}, median {100 * off.median():.2f} % off."


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=240, metavar="N", help="how many public rows (240)")
    chosen = parser.parse_args()
    publish(REGRESSOR, "end_to_end", lines(chosen.rows), write=chosen.write)
