"""Whether "sure" is sure, and what the run that is proposed in doubt is worth: stated against realised, on public data.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.decision [--write]

The questions of regret.py, asked as a user does: a predictor is trained without the fold (with intervals of its own), and
`recommend` and `decide` rank the GPUs that the workload was measured on. The job takes ten hours on its source; what the
proposed runs measure is known afterwards. Ten minutes: a training for each fold.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from epochcast.analyzer.instances import Instance, load_instances
from epochcast.analyzer.recommendation import Decision, Objective, Ranking, Work, decide, recommend, trial_run, whole_job
from epochcast.analyzer.recommendation.rank import cost_of, time_of
from epochcast.regressor import Catalog, Prediction, Predictor, Profile, load_catalog
from epochcast.regressor.protocols import splits

from .public_pairs import SEED, PublicPairs, header, line, options, report
from .regret import OBJECTIVES, Asked, PublicQuestions

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


def work_of(profile: Profile) -> Work:
    """Ten hours of the job on its source."""
    assert profile.epoch_s is not None
    return Work(epochs=math.ceil(JOB_S / profile.epoch_s), startup_s=STARTUP_S)


def ask(
    profile: Profile,
    predictions: Sequence[Prediction],
    instances: Sequence[Instance],
    catalog: Catalog,
    objective: Objective,
) -> tuple[Ranking, Decision]:
    """What the command answers."""
    work = work_of(profile)
    ranking = recommend(predictions, instances, catalog, job_of=lambda one: whole_job(profile, one, work), objective=objective)
    decision = decide(
        ranking.recommendations,
        objective,
        lambda row: trial_run(profile, row, epochs=work.epochs, startup_s=STARTUP_S),
    )
    assert decision is not None
    return ranking, decision


def outcome(asked: Asked, predictor: Predictor, objective: Objective) -> Outcome:
    """Ask, and compare with what was measured."""
    profile = asked.question.source
    predictions = predictor.predict(profile, asked.question.gpus)
    ranking, decision = ask(profile, predictions, asked.instances, predictor.catalog, objective)
    work, rows = work_of(profile), {row.instance.gpu: row for row in ranking.recommendations}
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


@dataclass
class Asking:
    """All questions, each asked of a predictor that has not seen its workload (P2) or its architecture (P3).

    Attributes:
        outcomes: among the GPUs that the workload was measured on.
        everywhere: what is stated of the whole price table, whose truth is not known.
    """

    outcomes: dict[Objective, list[Outcome]]
    everywhere: dict[Objective, list[Decision]]


def asking(data: PublicQuestions, protocol: str) -> Asking:
    """Ask them."""
    public, catalog = data.public, load_catalog()
    instances, _ = load_instances(None, catalog)
    found = Asking({objective: [] for objective in OBJECTIVES}, {objective: [] for objective in OBJECTIVES})
    for train, test in splits(public.pairs, protocol, SEED):
        profiles = {id(public.pairs[row].source): public.pairs[row].source for row in train.tolist()}
        predictor = Predictor.fit(list(profiles.values()), catalog)
        tested = set(public.workloads[test].tolist())
        for asked in data.asked:
            profile = asked.question.source
            if profile.workload in tested:
                predictions = predictor.predict(profile)
                for objective in OBJECTIVES:
                    found.outcomes[objective].append(outcome(asked, predictor, objective))
                    found.everywhere[objective].append(ask(profile, predictions, instances, catalog, objective)[1])
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


def everywhere(protocol: str, objective: Objective, stated: Sequence[Decision]) -> Iterator[str]:
    """What is said of the whole price table."""
    regrets = [100 * one.regret_share for one in stated]
    planned = [one.experiment for one in stated if one.experiment is not None]
    yield line(
        f"{objective}, {PROTOCOLS[protocol]} ({protocol})",
        f"{len(stated)}",
        f"{np.mean([one.sure for one in stated]):.0%}",
        f"{np.mean([len(one.rivals) for one in stated]):.1f}",
        f"{np.median(regrets):.1f} ({np.percentile(regrets, 10):.1f}–{np.percentile(regrets, 90):.1f})",
        f"{np.mean([len(plan.runs) for plan in planned]):.1f}" if planned else "–",
        f"{np.mean([plan.worth for plan in planned]):.0%}" if planned else "–",
    )


def lines(public: PublicPairs) -> Iterator[str]:
    """All four tables."""
    data = PublicQuestions.of(public)
    asked = {protocol: asking(data, protocol) for protocol in PROTOCOLS}
    found = {protocol: one.outcomes for protocol, one in asked.items()}
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
    yield ""
    gpus = {one.gpu for one in load_instances(None, load_catalog())[0]}
    yield f"The same questions of the whole shipped table ({len(gpus)} kinds of GPU); what is true there is not known:"
    yield ""
    yield from header(
        "questions about", "n", "sure", "rivals, mean", "regret stated %, median (P10–P90)", "runs each", "worth it"
    )
    for protocol, objective in cells:
        yield from everywhere(protocol, objective, asked[protocol].everywhere[objective])


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    report("decision", lines(PublicPairs.load()), chosen, page="recommendation")
