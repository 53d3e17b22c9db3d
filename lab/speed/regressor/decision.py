"""Whether "sure" is sure, and what the run that is proposed in doubt is worth: stated against realised, on public data.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.decision [--write]

The questions of regret.py, asked as a user does: a predictor is trained without the fold (with intervals of its own), and
`rank_instances` and `decide` rank the GPUs that the workload was measured on. The job takes ten hours on its source; what the
proposed run measures is known afterwards. Ten minutes: a training for each fold.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product

import pandas as pd

from epochcast.analyzer.jobs.decide import decide, trial_run
from epochcast.analyzer.jobs.rank import Objective, cost_of, rank_instances, time_of
from epochcast.analyzer.jobs.whole_job import Work, whole_job
from epochcast.regressor import LatencyPredictor, load_catalog
from epochcast.regressor.protocols import splits
from lab.evaluate.latency.fastest_gpu import MeasuredProfile
from lab.speed.page import RECOMMENDATION, markdown_table, options, publish
from lab.speed.regressor.public_pairs import SEED, PublicPairs
from lab.speed.regressor.regret import OBJECTIVES, PublicQuestions

PROTOCOLS = {"P2": "new workload", "P3": "new architecture"}
JOB_S = 36_000.0
STARTUP_S = 300.0
CHANCES = (0.0, 0.5, 0.8, 0.95, 0.999, 1.0)


def outcome(
    data: PublicQuestions, question: MeasuredProfile, predictor: LatencyPredictor, objective: Objective
) -> dict[str, float]:
    """Ask as the command does, and compare with what was measured.

    Stated are ``sure``, ``chance`` and ``stated``, the expected regret, whether a run is ``proposed``, and whether it is
    ``worth`` it. Realised are whether the first place is ``right``, the ``regret`` of following it, that ``after`` the run,
    what is ``spent`` on it, and the ``effort``: regret and expense of measuring where it is worth it, and following elsewhere.
    All regrets and expenses are shares of what the first place was expected to cost or take.
    """
    profile = question.source
    assert profile.epoch_s is not None
    work = Work(epochs=math.ceil(JOB_S / profile.epoch_s), startup_s=STARTUP_S)
    ranking = rank_instances(
        predictor.predict(profile, question.gpus),
        [data.instances[gpu] for gpu in question.gpus],
        predictor.catalog,
        job_of=lambda prediction: whole_job(profile, prediction, work),
        objective=objective,
    )
    decision = decide(
        ranking.placements, objective, lambda row: trial_run(profile, row, epochs=work.epochs, startup_s=STARTUP_S)
    )
    assert decision is not None
    value = cost_of if objective == "cost" else time_of
    known = {row.instance.gpu: value(row) for row in ranking.placements}
    seconds = question.seconds(data.public.actual[data.rows]) * work.epochs + STARTUP_S
    true = dict(zip(question.gpus, seconds.tolist(), strict=True))
    if objective == "cost":
        true = {gpu: whole_s / 3600 * data.usd_per_hour[gpu] for gpu, whole_s in true.items()}
    least, first, share = min(true.values()), decision.first.instance.gpu, value(decision.first)
    chosen, spent, experiment = first, 0.0, decision.experiment
    if experiment is not None:
        gpu = experiment.run.placement.instance.gpu
        known[gpu] = true[gpu]
        chosen = min(known, key=known.__getitem__)
        spent = (experiment.run.usd if objective == "cost" else experiment.run.seconds) / share
    regret, after = ((true[gpu] - least) / share for gpu in (first, chosen))
    worth = experiment is not None and experiment.worth
    return {
        "sure": decision.sure,
        "chance": decision.chance,
        "stated": decision.regret_share,
        "proposed": experiment is not None,
        "worth": worth,
        "right": true[first] == least,
        "regret": regret,
        "after": after,
        "spent": spent,
        "effort": after + spent if worth else regret,
    }


def outcomes(data: PublicQuestions, protocol: str) -> dict[Objective, pd.DataFrame]:
    """Ask all questions, each of a predictor that has not seen its workload (P2) or its architecture (P3)."""
    public = data.public
    records: dict[Objective, list[dict[str, float]]] = {objective: [] for objective in OBJECTIVES}
    for train, test in splits(public.pairs, protocol, SEED):
        profiles = {id(public.pairs[row].source): public.pairs[row].source for row in train.tolist()}
        predictor = LatencyPredictor.fit(list(profiles.values()), load_catalog())
        tested = set(public.workloads[test].tolist())
        for question, objective in product(data.asked, OBJECTIVES):
            if question.source.workload in tested:
                records[objective].append(outcome(data, question, predictor, objective))
    return {objective: pd.DataFrame(some) for objective, some in records.items()}


def _percent(table: pd.DataFrame, names: Sequence[str]) -> list[str]:
    return [f"{100 * table[name].mean():.2f}" if len(table) else "–" for name in names]


def doubt(by_question: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """Sure, not sure, all."""
    rows = []
    for name, table in by_question.items():
        for group, some in {"sure": table[table.sure], "in doubt": table[~table.sure], "all": table}.items():
            number = f"{len(some)} ({len(some) / len(table):.0%})"
            rows.append((name, group, number, *_percent(some, ("chance", "right", "stated", "regret"))))
    header = ("questions about", "says it is", "n", "chance stated %", "was the best %", "regret stated %", "regret realised %")
    yield from markdown_table(header, rows)


def chances(table: pd.DataFrame) -> Iterator[str]:
    """Stated chance to be first against how often it was."""
    rows = []
    for low, high in pairwise(CHANCES):
        here = table[(table.chance > low) & (table.chance <= high)]
        if len(here):
            shares = (f"{100 * here[name].mean():.1f}" for name in ("chance", "right"))
            rows.append((f"{100 * low:g} to {100 * high:g} %", f"{len(here)}", *shares))
    yield from markdown_table(("chance stated", "n", "mean %", "was the best %"), rows)


def experiments(by_question: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """What the proposed run brings, over the questions in doubt that have some; then over all."""
    rows = []
    for name, table in by_question.items():
        some = table[table.proposed]
        worth = f"{some.worth.mean():.0%}" if len(some) else "–"
        shares, overall = _percent(some, ("regret", "after", "spent")), _percent(table, ("regret", "effort"))
        rows.append((name, f"{len(some)}", *shares, worth, *overall))
    header = ("questions about", "run proposed in", "regret before %", "after %", "the run itself %")
    overall = ["said to be worth it", "all questions: follow %", "measure where worth it %"]
    yield from markdown_table((*header, *overall), rows)


def lines() -> Iterator[str]:
    """All three tables."""
    data = PublicQuestions.of(PublicPairs.load())
    by_protocol = {protocol: outcomes(data, protocol) for protocol in PROTOCOLS}
    by_question = {
        f"{objective}, {PROTOCOLS[protocol]} ({protocol})": by_protocol[protocol][objective]
        for objective, protocol in product(OBJECTIVES, PROTOCOLS)
    }
    yield f"{len(data.asked)} questions; a job of {JOB_S / 3600:g} hours on its source, start-up {STARTUP_S / 60:g} minutes."
    yield ""
    yield from doubt(by_question)
    yield ""
    yield from chances(pd.concat(by_question.values()))
    yield ""
    yield from experiments(by_question)


if __name__ == "__main__":
    publish(RECOMMENDATION, "decision", lines(), write=options(__doc__).parse_args().write)
