"""Fit the tracker's confidence: writes the weights that stand in detector/methods/track/confidence.json.

    EPOCHCAST_SHARED=../shared python -m lab.speed.detector.calibrate [--first 3000] [--traces 24] [--out FILE]

Rows: every track and every folded cycle of simulated traces of every class but `few` (of two or three epochs the true one is
a matter of opinion), of the real traces of `../shared/data/real_traces`, and of every second MLPerf run (where the data is).
Each simulated trace is changed at random as recorders would: other metrics absent, thinned, cropped, noisy; each real one is
read whole and thinned. A cycle is right if its period is within 5 % of the truth; on a trace without training only as the steps
of a step loop; on a trace whose period changes never, but its parts are traces of their own.

What it prints is for traces that no fold's network has seen: simulated ones leave the fit by seed, real ones by whole
repositories. The figures in the documentation come from other seeds still.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from epochcast.detector import InputError
from epochcast.detector import clock as clocks
from epochcast.detector.confidence import ANSWERS, SURE
from epochcast.detector.epochs import ClockName
from epochcast.detector.methods.track import confidence
from epochcast.detector.methods.track.cycle import followed
from epochcast.detector.methods.track.folding import fold
from epochcast.detector.methods.track.grid import build, busy_stretches
from epochcast.detector.signals import Signals, clean
from lab.evaluate.detection import RESOLVED, TOLERANCE
from lab.simulator import CLASSES, simulate_class
from lab.speed.detector.traces import REAL, THINNED, mlperf, real
from lab.speed.page import options

#: A step loop's cycle is right if it is a step by name.
SHORTEST_EPOCH_S = 4.0
CANDIDATES = 6
UNITS, PENALTY, NETWORKS = {"track": 32, "fold": 16}, 0.1, 10

#: Classes of which there are more traces: what real loggers write, and cycles within cycles, are rare in the others.
MORE = {"sparse": 6, "logged": 2, "evaluations": 2, "sometimes_evaluated": 2, "hyperparameter_search": 2, "notebook": 2}

#: What recorders typically have: everything, the paper's best with three more, NVML only, one or two.
SUBSETS: tuple[tuple[str, ...] | None, ...] = (
    None,
    ("dram_active", "sm_active", "pcie_rx", "power"),
    ("dram_active", "sm_active", "pcie_rx", "power"),
    ("gpu_utilization", "memory_utilization", "power", "power_average", "memory_used", "sm_clock", "temperature"),
    ("gpu_utilization", "memory_utilization", "power", "power_average", "temperature"),
    ("dram_active",),
    ("sm_active", "power"),
    ("power", "power_average"),
)

#: So many of these are full sets.
FULL = 3

#: A real trace, or MLPerf run, counts as much as so many simulated ones: there are few. Those of one repository share the
#: weight of so many traces.
RECORDED, REPOSITORY = 10.0, 6.0

#: Real traces are read whole, and every second, fourth and eighth sample, while a cycle keeps so many samples.
LEAST = 3.0

#: Classes whose traces are also searched on the work clock, as the tracker does where the wall clock leaves it unsure; and one
#: in so many traces of the others.
EVERY = 4
BOTH_CLOCKS = ("shared", "throttled", "unfreezing", "bursts", "serving", "notebook")

Columns = dict[str, NDArray[np.float64]]
Row = dict[str, Any]


def rows_of(signals: Signals, clock: clocks.Clock, truths: list[float], steps: bool) -> list[Row]:
    """One row per track, and one for what folds: its period [wall s], whether it is right, and its evidence."""
    grid = build(signals, clock, busy_stretches(signals)[0])
    if grid is None:
        return []
    rows = []
    folded = fold(grid)
    tracks = followed(grid, CANDIDATES, folded)
    cycles = [
        (track.samples * grid.step, track.boundaries * float(track.size), confidence.of_track(track, tracks, folded, grid))
        for track in tracks
    ]
    if folded is not None:
        cycles.append(
            (folded.period * grid.over * grid.step, folded.boundaries * grid.over, confidence.of_fold(folded, tracks, grid))
        )
    for length, boundaries, evidence in cycles:
        period = length
        if clock.name == "work":
            period = float(np.median(np.diff(clock.to_wall(grid.reading(boundaries)))))
        right = any(abs(period / true - 1) < TOLERANCE for true in truths) or (steps and period < SHORTEST_EPOCH_S)
        rows.append({"right": bool(right), "evidence": evidence, "shown": True})
    return rows


def on_clocks(signals: Signals, names: tuple[ClockName, ...]) -> Iterator[tuple[ClockName, clocks.Clock]]:
    """Those of the clocks that the metrics allow."""
    for name in names:
        with suppress(InputError):  # no activity among them
            yield name, clocks.choose(signals, name)


def simulated(cls: str, seed: int) -> list[Row]:
    """The rows of one simulated trace, changed as its seed says."""
    trace = simulate_class(cls, seed)
    rng = np.random.default_rng([seed, len(cls)])
    subset = SUBSETS[seed % len(SUBSETS)]
    time, metrics = trace.time, {name: values for name, values in trace.metrics.items() if subset is None or name in subset}
    metrics = metrics or trace.metrics  # a log of NVML's metrics may have none of the subset
    all_starts = [starts for starts in (trace.epoch_starts, trace.epoch_starts2) if len(starts) > 1]
    spans = [(time[0], time[-1])]
    if cls == "changing":
        lengths = np.diff(trace.epoch_starts)
        split = min(range(3, lengths.size - 2), key=lambda k: np.abs(lengths[:k] - np.median(lengths[:k])).sum()
                    + np.abs(lengths[k:] - np.median(lengths[k:])).sum())  # fmt: skip
        spans += [(time[0], trace.epoch_starts[split]), (trace.epoch_starts[split], time[-1])]
    rows = []
    for part, (begin, end) in enumerate(spans):
        starts = [own[(own >= begin) & (own <= end)] for own in all_starts]
        truths = (
            [float(np.median(np.diff(own))) for own in starts if len(own) > 1] if not (cls == "changing" and part == 0) else []
        )
        shown, columns = changed(cls, time, metrics, (begin, end), truths, rng)
        if shown.size < 12:
            continue
        signals = clean(shown, columns)
        weight = 2.0 if seed % len(SUBSETS) < FULL else 1.0
        for name, clock in on_clocks(signals, ("wall", "work") if cls in BOTH_CLOCKS or seed % EVERY == 0 else ("wall",)):
            label = {"trace": f"{cls} {seed} {part} {name}", "group": f"{cls} {seed}", "kind": cls, "weight": weight}
            rows += [{**label, **row} for row in rows_of(signals, clock, truths, CLASSES[cls].steps)]
    return rows


def changed(
    cls: str,
    time: NDArray[np.float64],
    metrics: Columns,
    span: tuple[float, float],
    truths: list[float],
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], Columns]:
    """The rows of a span; every second time cropped at random, thinned or with noise added."""
    begin, end = span
    period = max(truths, default=(end - begin) / 10)
    step = float(np.median(np.diff(time)))
    if cls == "sparse" and rng.random() < 0.4:  # real ones are often of few epochs
        begin += rng.uniform(0, max(0.0, end - begin - 6 * period))
        end = min(end, begin + rng.uniform(3.2, 6.5) * period)
    elif rng.random() < 0.25 and end - begin > 6 * period:
        begin, end = begin + rng.uniform(0, 0.4) * (end - begin), end - rng.uniform(0, 0.3) * (end - begin)
    inside = np.flatnonzero((time >= begin) & (time <= end))
    if rng.random() < 0.4:
        most = period / step / LEAST
        if most > 2:
            inside = inside[:: int(np.exp(rng.uniform(0, np.log(min(most, 300)))))]
    columns = {name: values[inside] for name, values in metrics.items()}
    if inside.size < len(time) / 2:  # slow metrics may have lost all their readings
        filled = {name: np.asarray(pd.Series(values).ffill().bfill(), dtype=np.float64) for name, values in metrics.items()}
        columns = {name: values[inside] for name, values in filled.items()}
    if cls == "sparse" and rng.random() < 0.7:
        columns = noisier(columns, rng)
    elif rng.random() < 0.2:
        share = np.exp(rng.uniform(np.log(0.02), np.log(0.3)))
        columns = {
            name: values + share * np.nanstd(values) * rng.standard_normal(inside.size) for name, values in columns.items()
        }
    columns = {name: values for name, values in columns.items() if not np.isnan(values).all()}
    return time[inside], columns or {name: values[inside] for name, values in metrics.items()}


def noisier(columns: Columns, rng: np.random.Generator) -> Columns:
    """What one reading in many seconds sees of steps that wait for data: noise that most metrics share, as large as the cycle.

    The temperature follows the mean of some readings.
    """
    count = len(next(iter(columns.values())))
    shared, share = rng.standard_normal(count), np.exp(rng.uniform(np.log(0.3), np.log(2.5)))
    slow = np.convolve(shared, np.exp(-np.arange(8) / 2.0))[:count] * 0.5
    noisy = {}
    for name, values in columns.items():
        own = slow if name == "temperature" else 0.7 * shared + 0.7 * rng.standard_normal(count)
        steady = name.startswith(("memory_used", "memory_clock"))
        noisy[name] = values if steady else values + share * np.nanstd(values) * own
    return noisy


def of_real(name: str) -> list[Row]:
    """The rows of one real trace, whole and thinned; of those whose period changes no period is right."""
    whole, regimes = real(name), name.startswith("regimes")
    group = f"repo {whole.labels.repo or whole.name.split('_')[0]}"
    rows = []
    for every in (1, *THINNED):
        each = whole.thinned(every)
        if whole.period_s / every < LEAST * whole.sample_s or each.time.size < 12:
            break
        signals = clean(each.time, each.metrics)
        # The tracker parts a trace whose period changes, and a thinned one is no other trace: neither is shown.
        label = {"trace": f"real {whole.name} {every}", "group": group, "kind": group, "weight": RECORDED}
        label["shown"] = every == 1 and not regimes
        for _, clock in on_clocks(signals, ("wall", "work")):
            rows += [{**row, **label} for row in rows_of(signals, clock, [] if regimes else [whole.period_s], steps=False)]
    return rows


def of_mlperf() -> list[Row]:
    """The rows of every second MLPerf run; none where the data is absent."""
    rows = []
    for number, run in enumerate(mlperf(resolved=False)):
        if number % 2:
            continue
        signals = clean(run.time, run.metrics)
        resolved = run.period_s >= RESOLVED * float(np.median(np.diff(signals.time)))
        found = rows_of(signals, clocks.choose(signals, "wall"), [run.period_s] if resolved else [], steps=False)
        system, benchmark, _ = run.name.split("/")
        label = {"trace": f"mlperf {run.name}", "group": f"mlperf {system} {benchmark}", "kind": "mlperf", "weight": RECORDED}
        rows += [{**label, **row} for row in found]
    return rows


def network(kind: str, values: NDArray[np.float64], right: NDArray[np.bool_], weight: NDArray[np.float64]) -> dict[str, Any]:
    """A network of one layer, averaged over several beginnings by stacking their units.

    Returns:
        `mean`, `scale`, `hidden`, `bias`, `output` and `offset`, see `confidence.probability`.
    """
    scaler = StandardScaler().fit(values)
    scaled = np.clip(scaler.transform(values), -confidence.FARTHEST, confidence.FARTHEST)
    parts = [
        MLPClassifier(
            (UNITS[kind],),
            activation="tanh",
            alpha=PENALTY,
            learning_rate_init=0.003,
            max_iter=400,
            random_state=seed,
            early_stopping=True,
        ).fit(scaled, right, sample_weight=weight)
        for seed in range(NETWORKS)
    ]
    return {
        "mean": scaler.mean_.tolist(),
        "scale": scaler.scale_.tolist(),
        "hidden": np.concatenate([part.coefs_[0].T for part in parts]).tolist(),
        "bias": np.concatenate([part.intercepts_[0] for part in parts]).tolist(),
        "output": np.concatenate(np.array([part.coefs_[1][:, 0] for part in parts]) / np.float64(NETWORKS)).tolist(),
        "offset": float(np.mean([part.intercepts_[1][0] for part in parts])),
    }


def weights_of(rows: list[Row]) -> NDArray[np.float64]:
    """Traces with many cycles count little more than others, repositories with many traces share a weight; mean 1."""
    cycles = Counter(row["trace"] for row in rows)
    traces = Counter(group for group, _ in {(row["group"], row["trace"]) for row in rows})
    weight = np.array(
        [row["weight"] / np.sqrt(cycles[row["trace"]]) * min(1.0, REPOSITORY / traces[row["group"]]) for row in rows]
    )
    return np.asarray(weight / weight.mean())


def show(rows: list[Row], sure: NDArray[np.float64]) -> None:
    """Of the surest cycle of each trace: stated confidence and share of right answers, by tenths; then by class and repository.

    Of real traces only those that are read whole, and have one period: the tracker parts the others.
    """
    table = pd.DataFrame([{key: row[key] for key in ("trace", "kind", "right", "shown")} for row in rows]).assign(stated=sure)
    best = table.loc[table.groupby("trace", sort=False)["stated"].idxmax()].query("shown")
    recorded = best["kind"].str.startswith(("repo", "mlperf"))
    for title, part in (("simulated", best[~recorded]), ("real", best[recorded])):
        print(f"{title}: {len(part)} traces; Brier score {((part['stated'] - part['right']) ** 2).mean():.4f}")
        tenths = part.groupby((part["stated"] * 10).astype(int).clip(upper=9) / 10)
        print(tenths.agg(n=("right", "size"), stated=("stated", "mean"), right=("right", "mean")).round(3).to_string())
    counts = {"n": 1, "right": best["right"].astype(int)}
    for least in (ANSWERS, SURE):
        above = best["stated"] >= least
        counts |= {f"at {least}": above.astype(int), f"wrong at {least}": (above & ~best["right"].astype(bool)).astype(int)}
    print(pd.DataFrame(counts, index=best.index).groupby(best["kind"], sort=False).sum().to_string())


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value


def main() -> None:
    """Fit, show, write the weights."""
    parser = options(__doc__, page=False)
    parser.add_argument("--first", type=int, default=3000, help="first seed")
    parser.add_argument("--traces", type=int, default=24, help="per class")
    parser.add_argument("--rows", type=Path, help="keep the rows here, and take them from here if they are there")
    parser.add_argument("--out", type=Path, help="write the weights to this file")
    chosen = parser.parse_args()
    if chosen.rows is not None and chosen.rows.exists():
        rows = json.loads(chosen.rows.read_text())
    else:
        seeds = range(chosen.first, chosen.first + chosen.traces)
        jobs = [(cls, seed + 1000 * i) for cls in CLASSES if cls != "few" for seed in seeds for i in range(MORE.get(cls, 1))]
        names = [str(path.relative_to(REAL).with_suffix("")) for path in sorted(REAL.rglob("*.json"))]
        with Pool() as pool:
            found = pool.starmap(simulated, jobs, chunksize=4)
            found += pool.map(of_real, names, chunksize=2)
        rows = [row for trace in found for row in trace] + of_mlperf()
        if chosen.rows is not None:
            chosen.rows.write_text(json.dumps(rows))
    sure = np.zeros(len(rows))
    final = {}
    for kind in ("track", "fold"):
        own = np.array([("explained" in row["evidence"]) == (kind == "fold") for row in rows])
        part = [row for row, mine in zip(rows, own, strict=True) if mine]
        names = list(part[0]["evidence"])
        values = np.array([[row["evidence"][name] for name in names] for row in part])
        right, weight = np.array([row["right"] for row in part]), weights_of(part)
        stated = np.zeros(len(part))
        for fitted, other in GroupKFold(5).split(values, right, [row["group"] for row in part]):
            weights = {"names": names, **network(kind, values[fitted], right[fitted], weight[fitted])}
            stated[other] = [confidence.probability(dict(zip(names, row, strict=True)), weights) for row in values[other]]
        sure[own] = stated
        final[kind] = {"names": names, **network(kind, values, right, weight)}
    show(rows, sure)
    if chosen.out is not None:
        kinds = [
            f'"{kind}": {{\n'
            + ",\n".join(f'"{name}": {json.dumps(_rounded(value))}' for name, value in weights.items())
            + "\n}"
            for kind, weights in final.items()
        ]
        chosen.out.write_text("{\n" + ",\n".join(kinds) + "\n}\n")


if __name__ == "__main__":
    main()
