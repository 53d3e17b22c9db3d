"""Fit the confidence, and show how good answers are: OFFSET and SLOPE of detector/confidence.py.

    EPOCHCAST_SHARED=../shared python -m lab.speed.detector.calibrate [--crops]

Rows: every real trace of `../shared/data/real_traces`, MLPerf's runs, and negatives: idle GPUs, and real traces whose blocks
are shuffled. A cycle is right if its period is within 5 % of the marks', or if it says that it may hold k epochs and a k-th is;
evaluations after every fourth epoch are right as a cycle of these. Whole repositories leave the fit in turn (a system and a
benchmark of MLPerf is one). CPU recordings and our own H200 are shown, not fitted. Inference has no true period, and two of a
period that changes none; both are shown by their words.

`--crops` searches each answered trace again without its first one and three rows, its last five, and a random twentieth.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from multiprocessing import Pool

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from epochcast.detector import Detection, detect
from epochcast.detector.confidence import OFFSET, SLOPE, SURE
from lab.evaluate.detection import TOLERANCE
from lab.speed.detector.traces import CPU_TRAININGS, REAL, mlperf, real, recorded
from lab.speed.page import ROOT, options

Array = NDArray[np.float64]

#: Share of labels that say something else than telemetry shows (the marks of one job are 768 s apart, its GPU repeats every
#: 426 s): without it these alone would set the slope.
MISLABELLED = 0.02

#: Traces that are shuffled, of each repository, and blocks as a share of the period.
SHUFFLED, BLOCKS = 2, (0.15, 0.6)

FITTED = ("wandb", "evaluations", "gtx970", "short", "h100_ckpt1", "titanx", "h100_dcgm t3", "mlperf", "shuffled", "idle")


@dataclass(frozen=True)
class Row:
    """A trace, its group, the repository that leaves the fit together, and the true periods [s], none for a negative."""

    group: str
    repository: str
    name: str
    time: Array
    metrics: dict[str, Array]
    truths: tuple[float, ...]

    def is_right(self, found: Detection) -> bool:
        """Whether the period is right, or the cycle's number of epochs is open and includes the truth."""
        if found.period_s is None:
            return False
        many = (1, *(found.cycle.k_open if found.cycle else ()), *((4,) if self.group == "evaluations" else ()))
        # After every fourth epoch comes an evaluation, which makes the cycle a tenth of an epoch longer.
        near = {4: 0.07} if self.group == "evaluations" else {}
        return any(abs(found.period_s / k / true - 1) < near.get(k, TOLERANCE) for k in many for true in self.truths)


def rows() -> Iterator[Row]:
    """All of them."""
    gpus = [row for path in sorted(REAL.rglob("*.json")) for row in of_real(str(path.relative_to(REAL).with_suffix("")))]
    yield from gpus
    taken: Counter[str] = Counter()
    rng = np.random.default_rng(7)
    for row in gpus:
        if row.truths and not row.group.startswith("h100_dcgm") and taken[row.repository] < SHUFFLED:
            taken[row.repository] += 1
            yield shuffled(row, rng)
    for run in mlperf():
        system, benchmark, _ = run.name.split("/")
        yield Row("mlperf", f"{system} {benchmark}", run.name, run.time, run.metrics, (run.period_s,))
    cpu = {**CPU_TRAININGS, "process": ROOT / "data" / "process_training"}
    for group, folder in (*((f"cpu {name}", path) for name, path in cpu.items()), ("h200", ROOT / "data/h200/record_epochs")):
        for run in recorded(folder):
            truths = (run.period_s,) if run.labels.training else ()
            yield Row(group.split()[0] if truths else "server", group, run.name, run.time, run.metrics, truths)


def of_real(name: str) -> Iterator[Row]:
    """The row of a real trace."""
    trace = real(name)
    folder, _, stem = name.rpartition("/")
    group = folder or stem.split("_")[0]
    group = {"more": "wandb", "more3": "wandb", "h100": "h100_ckpt1"}.get(group, group)
    truths: tuple[float, ...] = (trace.period_s,) if trace.labels.training else ()
    if group == "gtx970" and trace.period_s < 4:
        group = "short"
    if group == "h100_dcgm":
        group = {"t3": "h100_dcgm t3", "i4": "inference", "b1": "idle"}[stem.split("_")[2]]
        truths = (5.77,) if group == "h100_dcgm t3" else ()  # by the log and the spectrum of NVLink; marks are not known
    yield Row(group, trace.labels.repo or group, stem, trace.time, trace.metrics, () if group == "regimes" else truths)


def shuffled(row: Row, rng: np.random.Generator) -> Row:
    """The row without any cycle: its blocks of less than a period, in another order."""
    period = row.truths[0] / float(np.median(np.diff(row.time)))
    cuts = [0]
    while cuts[-1] < row.time.size:
        cuts.append(cuts[-1] + max(2, int(rng.uniform(*BLOCKS) * period)))
    blocks = [np.arange(first, min(last, row.time.size)) for first, last in pairwise(cuts)]
    order = np.concatenate([blocks[place] for place in rng.permutation(len(blocks))])
    metrics = {name: values[order] for name, values in row.metrics.items()}
    return replace(row, group="shuffled", repository=f"shuffled {row.repository}", metrics=metrics, truths=())


def answer(row: Row, kept: NDArray[np.int64] | None = None) -> Detection:
    """The detector's choice, however unsure, on all rows of the trace or those that are kept."""
    part = slice(None) if kept is None else kept
    metrics = {name: values[part] for name, values in row.metrics.items() if not np.isnan(values[part]).all()}
    return replace(detect(row.time[part], metrics, abstain_below=0.0), scores={})


def fit(scores: Array, right: NDArray[np.bool_]) -> tuple[float, float]:
    """Offset and slope of the logistic of the score, by maximum likelihood with a share of wrong labels."""

    def loss(weights: Array) -> float:
        sure = MISLABELLED / 2 + (1 - MISLABELLED) / (1 + np.exp(-weights[0] - weights[1] * scores))
        return -float(np.log(np.where(right, sure, 1 - sure)).sum())

    best = minimize(loss, [OFFSET, SLOPE], method="Nelder-Mead").x
    return float(best[0]), float(best[1])


def show_calibration(found: list[tuple[Row, Detection]]) -> None:
    """The fit, and stated against true confidence with whole repositories left out of it."""
    kept = [(row, each) for row, each in found if row.group in FITTED and 0 < each.confidence < 1]
    stated = np.array([each.confidence for _, each in kept])
    scores = (np.log(stated / (1 - stated)) - OFFSET) / SLOPE
    right = np.array([row.is_right(each) for row, each in kept])
    repository = np.array([row.repository for row, _ in kept])
    offset, slope = fit(scores, right)
    print(f"offset {offset:.2f}, slope {slope:.2f}, {len(kept)} rows of {len(set(repository))} repositories")
    for one in set(repository):
        offset, slope = fit(scores[repository != one], right[repository != one])
        stated[repository == one] = 1 / (1 + np.exp(-offset - slope * scores[repository == one]))
    for low, high in ((0.0, 0.3), (0.3, 0.6), (0.6, 0.8), (0.8, 0.9), (0.9, 1.0)):
        inside = (stated >= low) & (stated < high)
        if inside.any():
            each = [right[inside & (repository == one)].mean() for one in set(repository[inside])]
            print(
                f"  {low} to {high}: n {inside.sum()}, stated {stated[inside].mean():.2f}, true {right[inside].mean():.2f}, "
                f"mean over {len(each)} repositories {np.mean(each):.2f}"
            )
    for group in dict.fromkeys(row.group for row, _ in kept):
        sure = np.array([row.group == group for row, _ in kept]) & (stated >= SURE)
        print(f"  left out: {group}: {right[sure].sum()} right, {(~right[sure]).sum()} wrong at {SURE}")


def show_groups(found: list[tuple[Row, Detection]]) -> None:
    """Right and wrong answers by group, and the words of sure ones."""
    groups = defaultdict(list)
    for row, each in found:
        groups[row.group].append((each, row.is_right(each)))
    for group, answers in groups.items():
        sure = [(each, right) for each, right in answers if each.confidence >= SURE and each.period_s is not None]
        words = Counter(f"{each.unit}{'' if right else ' (wrong)'}" for each, right in sure)
        print(
            f"{group}: n {len(answers)}, choice right {sum(right for _, right in answers)}, at {SURE} right "
            f"{sum(right for _, right in sure)}, wrong {sum(not right for _, right in sure)}; {dict(words)}"
        )


def crops(row: Row) -> tuple[int, int, int]:
    """How many crops of a sure answer there are, how many give another sure one, and how many none."""
    before = answer(row)
    if before.confidence < SURE or before.period_s is None:
        return 0, 0, 0
    places = np.arange(row.time.size)
    rng = np.random.default_rng(row.time.size)
    parts = (places[1:], places[3:], places[:-5], np.sort(rng.choice(places, round(0.95 * places.size), replace=False)))
    after = [answer(row, part) for part in parts]
    sure = [each for each in after if each.confidence >= SURE and each.period_s is not None]
    other = sum(each.unit != before.unit or abs(each.period_s / before.period_s - 1) > TOLERANCE for each in sure)  # type: ignore[operator]
    return len(parts), other, len(parts) - len(sure)


def main() -> None:
    """Search all rows; print the fit, the groups, and the crops."""
    parser = options(__doc__, page=False)
    parser.add_argument("--crops", action="store_true", help="search crops of the answered traces, too")
    chosen = parser.parse_args()
    found_rows = list(rows())
    with Pool() as pool:
        found = list(zip(found_rows, pool.map(partial(answer), found_rows, chunksize=1), strict=True))
        show_groups(found)
        show_calibration(found)
        if chosen.crops:
            gpus = [row for row in found_rows if row.truths and row.group in FITTED]
            counts = np.sum(pool.map(crops, gpus, chunksize=1), axis=0)
            print(f"crops of sure answers: {counts[0]}; sure of another period or word {counts[1]}, not sure {counts[2]}")


if __name__ == "__main__":
    main()
