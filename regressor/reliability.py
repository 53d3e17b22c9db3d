"""What a recipe's answers are worth: accuracy, intervals, and what anchors bring, each on pairs that it was fitted without."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.anchored import Anchoring
from epochcast.regressor.answers import Answers
from epochcast.regressor.calibration import ROUTE
from epochcast.regressor.errors import InputError
from epochcast.regressor.features import BUSY
from epochcast.regressor.intervals import ScaledInterval
from epochcast.regressor.pairs import Pair, actual_ratio, at, gpu_names, target_seconds
from epochcast.regressor.profile import feature_set
from epochcast.regressor.protocols import Rows, out_of_fold
from epochcast.regressor.recipes import Recipe
from epochcast.regressor.recipes.default import DefaultRecipe, Route
from epochcast.regressor.recipes.speeds import job_of
from epochcast.regressor.scoring import FEWEST_ERRORS, conformal_quantile, score
from epochcast.regressor.telemetry_correction import SCALE_FLOOR, has_telemetry


@dataclass(frozen=True)
class Reliability:
    """Measured when a model is trained, kept in its file.

    Attributes:
        accuracy: error figures per protocol, one shuffle of the folds.
        intervals: per route.
        anchoring: what anchors on a new GPU bring; ``None`` where fewer than three GPUs were recorded with telemetry.
    """

    accuracy: dict[str, dict[str, float]]
    intervals: dict[str, ScaledInterval]
    anchoring: Anchoring | None

    @classmethod
    def measure(
        cls, pairs: Sequence[Pair], unfitted: DefaultRecipe, progress: Callable[[str], object] = lambda step: None
    ) -> "Reliability":
        """Leave workloads (P2), models (P3) and GPUs (P4) out in turn.

        A protocol that the data are too few for is left out: intervals then come from P2 instead of P3, and those for new GPUs
        from the scale of known ones. A model that predicts a new workload does not know whether its architecture is new
        too, so P3 stands for both: too wide rather than too narrow.

        ``progress`` is called with the name of each step before it: there are some dozen fits.

        Raises:
            InputError: fewer than five workloads were seen on two GPUs.
        """

        def fold(what: str) -> Callable[[int, int], object]:
            return lambda done, folds: progress(f"{what}: fit {done + 1} of {folds}")

        log_ratio = np.log(actual_ratio(pairs))
        accuracy: dict[str, dict[str, float]] = {}
        intervals: dict[str, ScaledInterval] = {}
        anchoring = None
        recorded = np.flatnonzero([has_telemetry(pair.source) for pair in pairs])
        for protocol in ("P2", "P3", "P4"):  # a later one leaves more out, and its errors take the place of an earlier one's
            poorer, new_jobs, out = with_metrics_missing(pairs), new_jobs_without_telemetry(pairs), from_new_gpus(pairs)
            collected = (new_jobs, out) if protocol == "P4" else (new_jobs, poorer)
            try:
                predicted, _, answers = out_of_fold(pairs, protocol, unfitted, progress=fold(protocol), also=both(*collected))
            except InputError:
                if protocol == "P2":
                    raise
                continue
            assert answers is not None
            accuracy[protocol] = asdict(score(target_seconds(pairs), predicted))
            errors, of_new_jobs = answers.log_ratio - log_ratio, new_jobs.answers()
            errors_of_new_jobs = of_new_jobs.log_ratio - log_ratio
            if protocol == "P4":
                intervals |= _by_route(errors, answers, ("residual", "job"), protocol)
                intervals["specifications"] = ScaledInterval.of_errors(errors_of_new_jobs, of_new_jobs, protocol)
                progress("anchors")
                anchoring = _anchoring(at(pairs, recorded), answers[recorded], out.answers())
            else:
                intervals |= _by_route(errors, answers, ("ensemble",), protocol)
                with_less = poorer.answers()
                intervals |= _by_route(with_less.log_ratio - log_ratio[recorded], with_less, ("incomplete",), protocol)
                intervals["speeds"] = ScaledInterval.of_errors(errors_of_new_jobs, of_new_jobs, protocol)
                widest = conformal_quantile(errors_of_new_jobs)
        if anchoring is not None:
            intervals[ROUTE] = anchoring.interval
        return cls(accuracy, _with_all_routes(intervals, widest), anchoring)


class FoldAnswers:
    """Further answers of the recipe of each fold, without another fit; for ``also`` of out_of_fold."""

    def __init__(self, answer: Callable[[DefaultRecipe, Rows], tuple[Rows, Answers]]) -> None:
        """``answer`` gives, for the recipe of a fold and its test rows, the rows of the further answers and these."""
        self._answer = answer
        self._rows: list[Rows] = []
        self._answers: list[Answers] = []

    def __call__(self, recipe: Recipe, test: Rows) -> None:
        """Collect the answers of the recipe that was fitted without these rows."""
        rows, answers = self._answer(cast(DefaultRecipe, recipe), test)
        if len(rows):
            self._rows.append(rows)
            self._answers.append(answers)

    def answers(self) -> Answers:
        """All answers, in the order of the rows."""
        if not self._answers:
            return Answers.none()
        return Answers.concatenate(self._answers)[np.argsort(np.concatenate(self._rows))]


def both(*collectors: FoldAnswers) -> Callable[[Recipe, Rows], None]:
    """Call one after the other."""

    def call_all(recipe: Recipe, test: Rows) -> None:
        for collector in collectors:
            collector(recipe, test)

    return call_all


def from_new_gpus(pairs: Sequence[Pair]) -> FoldAnswers:
    """Every pair with telemetry, of the recipe fitted without its source GPU: protocol P4 seen from the other end."""
    sources, _ = gpu_names(pairs)
    recorded = np.array([has_telemetry(pair.source) for pair in pairs])

    def answer(recipe: DefaultRecipe, test: Rows) -> tuple[Rows, Answers]:
        rows = np.flatnonzero((sources == pairs[test[0]].target_gpu.name) & recorded)
        return rows, _answered(recipe, at(pairs, rows))

    return FoldAnswers(answer)


def with_metrics_missing(pairs: Sequence[Pair]) -> FoldAnswers:
    """Every pair with telemetry, when some of its metrics are missing."""
    recorded = np.array([has_telemetry(pair.source) for pair in pairs])

    def answer(recipe: DefaultRecipe, test: Rows) -> tuple[Rows, Answers]:
        rows = test[recorded[test]]
        return rows, _answered(recipe, without_some_metrics(at(pairs, rows)))

    return FoldAnswers(answer)


def without_some_metrics(pairs: Sequence[Pair]) -> list[Pair]:
    """Take from each source profile a random choice of its metrics, at least one, and leave one activity metric; seed 0.

    A profile without any activity metric stays as it is.
    """
    rng = np.random.default_rng(0)
    poorer = []
    for pair in pairs:
        metrics = pair.source.metrics
        kept_busy = next((name for name in BUSY if name in metrics), None)
        others = [] if kept_busy is None else sorted(set(metrics) - {kept_busy})
        gone = set(rng.choice(others, size=rng.integers(1, len(others) + 1), replace=False)) if others else set()
        rest = {name: statistics for name, statistics in metrics.items() if name not in gone}
        poorer.append(replace(pair, source=replace(pair.source, metrics=rest, feature_set=feature_set(rest))))
    return poorer


def new_jobs_without_telemetry(pairs: Sequence[Pair]) -> FoldAnswers:
    """Every pair, when nothing of its telemetry is known, and no rate of its job on any GPU."""
    bare = [replace(pair, source=replace(pair.source, metrics={}, feature_set="none")) for pair in pairs]

    def answer(recipe: DefaultRecipe, test: Rows) -> tuple[Rows, Answers]:
        by_job: dict[str, list[int]] = defaultdict(list)
        for row in test.tolist():
            by_job[job_of(pairs[row]) or ""].append(row)
        parts = [recipe.speeds_.without(job).answer([bare[row] for row in rows]) for job, rows in by_job.items()]
        return np.concatenate([np.array(rows) for rows in by_job.values()]), Answers.concatenate(parts)

    return FoldAnswers(answer)


def _answered(recipe: DefaultRecipe, pairs: Sequence[Pair]) -> Answers:
    return recipe.answer(pairs) if pairs else Answers.none()


def _by_route(
    errors: NDArray[np.float64], answers: Answers, routes: Sequence[Route], protocol: str
) -> dict[str, ScaledInterval]:
    """An interval for each of these routes that enough answers took.

    A fold may answer by a route that the whole model would not take: where it leaves too little of two known GPUs, it takes
    them for new ones.
    """
    rows = {route: np.flatnonzero(answers.routes == route) for route in routes}
    return {
        route: ScaledInterval.of_errors(errors[here], answers[here], protocol)
        for route, here in rows.items()
        if len(here) >= FEWEST_ERRORS
    }


def _with_all_routes(intervals: dict[str, ScaledInterval], widest: float) -> dict[str, ScaledInterval]:
    """Of a route that no protocol took, the interval of a new job, the scale of which knows what a new GPU adds.

    The scale of what telemetry corrects is another one: it gets at least ``widest``, the half-width of all new jobs.
    """
    speeds = intervals["speeds"]
    wide = ScaledInterval(widest / SCALE_FLOOR, speeds.protocol, speeds.n)
    return {
        **dict.fromkeys(("job", "specifications"), speeds),
        **dict.fromkeys(("ensemble", "incomplete", "residual", ROUTE), wide),
        **intervals,
    }


def _anchoring(pairs: Sequence[Pair], into: Answers, out: Answers) -> Anchoring | None:
    """None where the data hold no telemetry, or too few workloads on every GPU."""
    if not pairs:
        return None
    try:
        return Anchoring.measure(pairs, into, out)
    except InputError:
        return None
