"""Whether "certain" is true, and what following the first line costs and gains: stated against measured, on public data.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.first_line [--write]

The questions of regret.py on rates of equal work: ratios are of recipes that have not seen the workload's group, intervals as
wide as the shipped model's (which come from jobs left out of training, these among them). The job takes ten hours where it was
measured, each GPU costs its least share of an instance, and `judge` says what to do. Then the measured rates say what it cost.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.jobs.rank import JobLimits, Work, cost_of, plan_trial, rank_instances, time_of, whole_job
from epochcast.analyzer.jobs.verdict import AT_MOST_SLOWER, EQUAL, Terms, judge
from epochcast.regressor import LatencyPredictor, Prediction
from epochcast.regressor.recipes import DefaultRecipe
from lab.evaluate.latency.fastest_gpu import MeasuredProfile
from lab.speed.page import RECOMMENDATION, markdown_table, options, publish
from lab.speed.regressor.public_pairs import RATES, PublicPairs
from lab.speed.regressor.regret import PublicQuestions

JOB_S = 36_000.0


def outcome(
    data: PublicQuestions, question: MeasuredProfile, predictor: LatencyPredictor, predicted: NDArray[np.float64]
) -> dict[str, float]:
    """What the first line says of a question, and what is true of it; costs and times in those of staying."""
    own = question.seconds(predicted[data.rows])
    ratios = dict(zip(question.gpus, (own / own[0]).tolist(), strict=True))
    profile = replace(question.source, epoch_s=JOB_S / 100, unit="epoch")  # its own is the inverse of a rate
    work = Work(epochs=100, name="ten hours")
    shares = [replace(data.instances[gpu], count=1, usd_per_hour=data.usd_per_hour[gpu]) for gpu in question.gpus]
    placements, _ = rank_instances(
        [_moved(each, ratios[each.gpu]) for each in predictor.predict(profile, question.gpus)],
        shares,
        predictor.catalog,
        job_of=lambda prediction: whole_job(profile, prediction, work),
    )
    rows = {row.instance.gpu: replace(row, fits=True) for row in placements}
    now = rows[question.gpus[0]]
    trial = lambda row: plan_trial(profile, row, work)  # noqa: E731
    verdict = judge(list(rows.values()), now, Terms("cost", JobLimits(), "it", time_of(now), trial=trial))
    best = verdict.best
    assert best is not None
    seconds = question.seconds(data.public.actual[data.rows])
    time = dict(zip(question.gpus, (seconds / seconds[0]).tolist(), strict=True))
    cost = {gpu: time[gpu] * data.usd_per_hour[gpu] / data.usd_per_hour[question.gpus[0]] for gpu in question.gpus}
    # Half an hour of ten is 5 %: a move that truly saves no more is none that rule 4 allows.
    worth = 1 - 1800 / JOB_S
    allowed = [gpu for gpu in question.gpus if gpu == question.gpus[0] or (time[gpu] <= AT_MOST_SLOWER and cost[gpu] < worth)]
    least = min(cost[gpu] for gpu in allowed)
    equal = [gpu for gpu in allowed if cost[gpu] <= (1 + EQUAL) * least]
    by_cost = min(rows.values(), key=cost_of)
    here = best.instance.gpu
    return {
        "move": verdict.action == "move",
        "certain": verdict.certain,
        "true": cost[here] < 1,
        "by data sheet": best.prediction.by_data_sheet and verdict.action == "move",
        "too slow": time[here] > AT_MOST_SLOWER,
        "stated too slow": time_of(best) > AT_MOST_SLOWER * time_of(now),
        "20 % cheaper": cost[here] <= 0.8,
        "20 % possible": least <= 0.8,
        "extra cost": cost[here] / least - 1,
        "extra cost of the cheapest predicted": cost[by_cost.instance.gpu] / least - 1,
        "time to the fastest equal": time[here] / min(time[gpu] for gpu in equal),
        "time to the cheapest predicted": time[here] / time[by_cost.instance.gpu],
    }


def _moved(prediction: Prediction, ratio: float) -> Prediction:
    """With another ratio, and the same relative width."""
    factor = ratio / prediction.ratio
    ends = {name: getattr(prediction, name) * factor for name in ("ratio_low", "ratio_high", "seconds", "low", "high")}
    return replace(prediction, ratio=ratio, **ends)


def outcomes() -> pd.DataFrame:
    """All questions, each of recipes that have seen no workload of its group."""
    public, predictor = PublicPairs.load(RATES), LatencyPredictor.load()
    data, predicted = PublicQuestions.of(public, share=True), public.predicted(DefaultRecipe(), "P3")
    return pd.DataFrame([outcome(data, each, predictor, predicted) for each in data.asked]).astype(float)


def lines() -> Iterator[str]:
    """What is certain, and what following costs."""
    table = outcomes()
    certain, moves = table[table.certain == 1], table[table.move == 1]
    cheaper = table[table["20 % cheaper"] == 1]
    yield f"{len(table)} questions, {len(moves)} moves, {len(certain)} of them certain."
    yield ""
    rows = [
        ("certain moves that are cheaper", f"{100 * certain.true.mean():.1f} %", len(certain)),
        ("all moves that are cheaper", f"{100 * moves.true.mean():.1f} %", len(moves)),
        ("of first lines truly 20 % cheaper, certain", f"{100 * cheaper.certain.mean():.1f} %", len(cheaper)),
        ("of questions with 20 % to save, certain", f"{100 * table[table['20 % possible'] == 1].certain.mean():.1f} %", ""),
        (
            "certain by a data sheet; certain and stated beyond 1.5 times",
            f"{int((certain['by data sheet'] + certain['stated too slow']).sum())}",
            "",
        ),
        ("certain moves that truly take more than 1.5 times", f"{int(certain['too slow'].sum())}", len(certain)),
        ("cost above the cheapest that is allowed, mean; median", _mean_median(table["extra cost"]), len(table)),
        (
            "the same of the cheapest predicted, as before this rule",
            _mean_median(table["extra cost of the cheapest predicted"]),
            "",
        ),
        (
            "time over that of the fastest of the equal ones",
            f"{np.exp(np.log(table['time to the fastest equal']).mean()):.2f}",
            "",
        ),
        (
            "time over that of the cheapest predicted, as before this rule",
            f"{np.exp(np.log(table['time to the cheapest predicted']).mean()):.2f}",
            "",
        ),
    ]
    yield from markdown_table(("what", "measured", "n"), [tuple(map(str, row)) for row in rows])


def _mean_median(values: "pd.Series[float]") -> str:
    return f"{100 * values.mean():.2f} %; {100 * values.median():.2f} %"


if __name__ == "__main__":
    publish(RECOMMENDATION, "decision", lines(), write=options(__doc__).parse_args().write)
