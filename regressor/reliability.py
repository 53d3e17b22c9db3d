"""What a recipe's answers are worth: accuracy, intervals, and what anchors bring, each on pairs that it was fitted without."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from .anchored import Anchoring
from .answers import Answers
from .calibration import ROUTE
from .errors import InputError
from .features import prior_log_ratio
from .incomplete import without_some_metrics
from .intervals import Interval
from .pairs import Pair, actual_ratio, target_seconds
from .protocols import AnsweringRecipe, Rows, out_of_fold
from .recipes.default import SCALE_FLOOR, DefaultRecipe, Route
from .scoring import FEWEST_ERRORS, conformal_quantile, score


@dataclass(frozen=True)
class Reliability:
    """Measured when a model is trained, kept in its file.

    Attributes:
        accuracy: error figures per protocol, one shuffle of the folds.
        intervals: per route.
        anchoring: what anchors on a new GPU bring; ``None`` where the training data have fewer than three GPUs.
    """

    accuracy: dict[str, dict[str, float]]
    intervals: dict[str, Interval]
    anchoring: Anchoring | None

    @classmethod
    def measure(
        cls, pairs: Sequence[Pair], unfitted: DefaultRecipe, progress: Callable[[str], object] = lambda step: None
    ) -> "Reliability":
        """Leave workloads (P2), models (P3) and GPUs (P4) out in turn.

        A protocol that the data are too few for is left out: intervals then come from P2 instead of P3, and from the prior
        instead of P4. A model that is asked about a new workload does not know whether its architecture is new too, so P3
        stands for both: too wide rather than too narrow.

        ``progress`` is told of each step before it: there are some dozen fits.

        Raises:
            InputError: fewer than five workloads were seen on two GPUs.
        """

        def fold(what: str) -> Callable[[int, int], object]:
            return lambda done, folds: progress(f"{what}: fit {done + 1} of {folds}")

        accuracy: dict[str, dict[str, float]] = {}
        intervals = _prior_intervals(pairs)
        known_gpus: tuple[Route, ...] = ("ensemble", "incomplete")
        anchoring = None
        for protocol in ("P2", "P3", "P4"):  # a later one leaves more out, and its errors take the place of an earlier one's
            try:
                second = from_new_gpus(pairs) if protocol == "P4" else _with_metrics_missing(pairs)
                predicted, _, answers = out_of_fold(pairs, protocol, unfitted, progress=fold(protocol), also=second)
            except InputError:
                if protocol == "P2":
                    raise
                continue
            assert answers is not None
            accuracy[protocol] = asdict(score(target_seconds(pairs), predicted))
            intervals |= _intervals(pairs, answers, protocol, ("residual",) if protocol == "P4" else known_gpus)
            if protocol == "P4":
                progress("anchors")
                anchoring = _anchoring(pairs, answers, second.answers())
                continue
            intervals |= _intervals(pairs, second.answers(), protocol, ("incomplete",))
        if anchoring is not None:
            intervals[ROUTE] = anchoring.interval
        return cls(accuracy, intervals, anchoring)


class SecondQuestion:
    """Asks the recipe of each fold a second question, while it is there; for ``also`` of out_of_fold."""

    def __init__(self, question: Callable[[Rows], tuple[Rows, Sequence[Pair]]]) -> None:
        """``question`` gives, for a fold's test rows, the rows to ask about and what to ask."""
        self._question = question
        self._rows: list[Rows] = []
        self._answers: list[Answers] = []

    def __call__(self, recipe: object, test: Rows) -> None:
        """Ask the recipe that was fitted without these rows."""
        assert isinstance(recipe, AnsweringRecipe)
        rows, asked = self._question(test)
        self._rows.append(rows)
        self._answers.append(recipe.answer(asked))

    def answers(self) -> Answers:
        """All answers, in the order of the pairs."""
        return Answers.concatenate(self._answers)[np.argsort(np.concatenate(self._rows))]


def from_new_gpus(pairs: Sequence[Pair]) -> SecondQuestion:
    """Every pair, of the recipe fitted without its source GPU: protocol P4 seen from the other end."""
    sources = np.array([pair.source_gpu.name for pair in pairs])

    def question(test: Rows) -> tuple[Rows, Sequence[Pair]]:
        rows = np.flatnonzero(sources == pairs[test[0]].target_gpu.name)
        return rows, [pairs[row] for row in rows.tolist()]

    return SecondQuestion(question)


def _with_metrics_missing(pairs: Sequence[Pair]) -> SecondQuestion:
    return SecondQuestion(lambda test: (test, without_some_metrics([pairs[row] for row in test.tolist()])))


def _anchoring(pairs: Sequence[Pair], into: Answers, out: Answers) -> Anchoring | None:
    try:
        return Anchoring.measure(pairs, into, out)
    except InputError:  # too few workloads on every GPU
        return None


def _intervals(pairs: Sequence[Pair], answers: Answers, protocol: str, routes: Sequence[Route]) -> dict[str, Interval]:
    """An interval for each of these routes that enough answers took.

    A fold may answer by a route that says nothing of the whole model: where it leaves too little of two known GPUs, it takes
    them for new ones.
    """
    log_errors = answers.log_ratio - np.log(actual_ratio(pairs))
    rows = {route: np.flatnonzero(answers.routes == route) for route in routes}
    return {
        route: Interval.of_errors(log_errors[here], answers[here], protocol)
        for route, here in rows.items()
        if len(here) >= FEWEST_ERRORS
    }


def _prior_intervals(pairs: Sequence[Pair]) -> dict[str, Interval]:
    """Intervals of the answers that learn nothing: their errors on the training pairs are as good as any."""
    log_ratio = np.log(actual_ratio(pairs))
    bare = [replace(pair, source=replace(pair.source, metrics={}, feature_set="none")) for pair in pairs]
    prior = Interval(conformal_quantile(prior_log_ratio(pairs) - log_ratio), "prior", len(pairs))
    specifications = Interval(conformal_quantile(prior_log_ratio(bare) - log_ratio), "prior", len(pairs))
    # A route that no fold takes gets at least the prior's width, whatever its scale.
    wide = replace(prior, multiple=prior.multiple / SCALE_FLOOR)
    return {
        "ensemble": wide,
        "incomplete": wide,
        "residual": wide,
        ROUTE: wide,
        "prior": prior,
        "specifications": specifications,
    }
