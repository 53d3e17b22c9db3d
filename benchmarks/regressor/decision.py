"""Whether "sure" is sure, and what the run that is proposed in doubt is worth: stated against realised, on public data.

Run: EPOCHCAST_SHARED=../shared python benchmarks/regressor/decision.py [--write]

The questions of regret.py, asked as a user does: a predictor is trained without the fold (with intervals of its own), and
`recommend` and `decide` rank the GPUs that the workload was measured on. The job takes ten hours on its source; what the
proposed runs measure is known afterwards. Ten minutes: a training for each fold.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from public_pairs import SEED, PublicPairs, header, line, options, report
from regret import OBJECTIVES, Asked, PublicQuestions

from epochcast.analyzer.recommendation import Decision, Objective, Work, decide, recommend, trial_run, whole_job
from epochcast.analyzer.recommendation.rank import cost_of, time_of
from epochcast.regressor import Predictor, load_catalog
from epochcast.regressor.protocols import splits

PROTOCOLS = {"P2": "new workload", "P3": "new architecture"}
JOB_S = 36_000.0
STARTUP_S = 300.0
CHANCES = (0.0, 0.5, 0.8, 0.95, 0.999, 1.0)


@dataclass(frozen=True)
class Outcome:
    """A decision and what became of it; all in shares of what the first place was expected to cost or take.

    Attributes:
        decision: as stated.
        right: the first place is the best.
        regret: of following it.
        after: regret of the choice after the proposed runs; that of following where none is proposed.
        spent: on the runs.
    """

    decision: Decision
    right: bool
    regret: float
    after: float
    spent: float

    @property
    def best_effort(self) -> float:
        """Regret and expense of measuring where it is said to be worth its price, and following elsewhere."""
        worth = self.decision.experiment is not None and self.decision.experiment.worth
        return self.after + self.spent if worth else self.regret


def outcome(asked: Asked, predictor: Predictor, objective: Objective) -> Outcome:
    """Ask, and compare with what was measured."""
    profile = asked.question.source
    assert profile.epoch_s is not None
    work = Work(epochs=math.ceil(JOB_S / profile.epoch_s), startup_s=STARTUP_S)
    predictions = {one.gpu: one for one in predictor.predict(profile, asked.question.gpus)}
    jobs = {gpu: whole_job(profile, one, work) for gpu, one in predictions.items()}
    ranking = recommend(predictions.values(), asked.instances, predictor.catalog, jobs=jobs, objective=objective)
    rows = {row.instance.gpu: row for row in ranking.recommendations}
    runs = {
        gpu: trial_run(profile, predictions[gpu], row, epochs=work.epochs, startup_s=STARTUP_S) for gpu, row in rows.items()
    }
    decision = decide(ranking.recommendations, objective, runs)
    assert decision is not None
    value = cost_of if objective == "cost" else time_of
    known = {gpu: value(row) for gpu, row in rows.items()}
    whole_s = asked.seconds * work.epochs + STARTUP_S
    true = dict(zip(asked.question.gpus, asked.weighed(whole_s, objective).tolist(), strict=True))
    if objective == "cost":
        true = {gpu: usd_seconds / 3600 for gpu, usd_seconds in true.items()}
    least, first = min(true.values()), decision.first.instance.gpu
    measured = [] if decision.experiment is None else list(decision.experiment.runs)
    known |= {run.recommendation.instance.gpu: true[run.recommendation.instance.gpu] for run in measured}
    chosen = min(known, key=known.__getitem__) if measured else first
    share = value(decision.first)
    return Outcome(
        decision,
        true[first] == least,
        (true[first] - least) / share,
        (true[chosen] - least) / share,
        sum(run.usd if objective == "cost" else run.seconds for run in measured) / share,
    )


def outcomes(data: PublicQuestions, protocol: str) -> dict[Objective, list[Outcome]]:
    """Of all questions; each is asked of a predictor that has not seen its workload (P2) or its architecture (P3)."""
    public, catalog = data.public, load_catalog()
    found: dict[Objective, list[Outcome]] = {objective: [] for objective in OBJECTIVES}
    for train, test in splits(public.pairs, protocol, SEED):
        profiles = {id(public.pairs[row].source): public.pairs[row].source for row in train.tolist()}
        predictor = Predictor.fit(list(profiles.values()), catalog)
        tested = set(public.workloads[test].tolist())
        for asked in data.asked:
            if asked.question.source.workload in tested:
                for objective in OBJECTIVES:
                    found[objective].append(outcome(asked, predictor, objective))
    return found


def _percent(values: Sequence[float]) -> str:
    return f"{100 * np.mean(values):.2f}" if values else "–"


def doubt(protocol: str, objective: Objective, found: Sequence[Outcome]) -> Iterator[str]:
    """Sure, not sure, all."""
    groups = {
        "sure": [one for one in found if one.decision.sure],
        "in doubt": [one for one in found if not one.decision.sure],
        "all": list(found),
    }
    for name, some in groups.items():
        yield line(
            f"{objective}, {PROTOCOLS[protocol]} ({protocol})",
            name,
            f"{len(some)} ({len(some) / len(found):.0%})",
            _percent([one.decision.chance for one in some]),
            _percent([one.right for one in some]),
            _percent([one.decision.regret_share for one in some]),
            _percent([one.regret for one in some]),
        )


def chances(found: Sequence[Outcome]) -> Iterator[str]:
    """Stated chance to be first against how often it was, over both protocols and objectives."""
    yield from header("chance stated", "n", "mean %", "was the best %")
    stated = np.array([one.decision.chance for one in found])
    right = np.array([one.right for one in found])
    for low, high in pairwise(CHANCES):
        here = (stated > low) & (stated <= high)
        if here.any():
            name = f"{100 * low:g} to {100 * high:g} %"
            yield line(name, f"{here.sum()}", f"{100 * stated[here].mean():.1f}", f"{100 * right[here].mean():.1f}")


def experiments(protocol: str, objective: Objective, found: Sequence[Outcome]) -> Iterator[str]:
    """What the proposed runs bring, over the questions in doubt that have some; then over all."""
    some = [one for one in found if one.decision.experiment is not None]
    planned = [one.decision.experiment for one in some if one.decision.experiment is not None]
    yield line(
        f"{objective}, {PROTOCOLS[protocol]} ({protocol})",
        f"{len(some)}",
        f"{np.mean([len(plan.runs) for plan in planned]):.2f}" if planned else "–",
        _percent([one.regret for one in some]),
        _percent([one.after for one in some]),
        _percent([one.spent for one in some]),
        f"{np.mean([plan.worth for plan in planned]):.0%}" if planned else "–",
        _percent([one.regret for one in found]),
        _percent([one.best_effort for one in found]),
    )


def lines(public: PublicPairs) -> Iterator[str]:
    """All three tables."""
    data = PublicQuestions.of(public)
    found = {protocol: outcomes(data, protocol) for protocol in PROTOCOLS}
    cells = [(protocol, objective) for objective in OBJECTIVES for protocol in PROTOCOLS]
    yield f"{len(data.asked)} questions; a job of {JOB_S / 3600:g} hours on its source, start-up {STARTUP_S / 60:g} minutes."
    yield ""
    doubts = ("questions about", "says it is", "n", "chance stated %", "was the best %", "regret stated %", "regret realised %")
    yield from header(*doubts)
    for protocol, objective in cells:
        yield from doubt(protocol, objective, found[protocol][objective])
    yield ""
    yield from chances([one for protocol, objective in cells for one in found[protocol][objective]])
    yield ""
    yield from header(
        "questions about",
        "runs proposed in",
        "runs each",
        "regret before %",
        "after %",
        "the runs themselves %",
        "said to be worth it",
        "all questions: follow %",
        "measure where worth it %",
    )
    for protocol, objective in cells:
        yield from experiments(protocol, objective, found[protocol][objective])


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    report("decision", lines(PublicPairs.load()), chosen, page="recommendation")
