"""What following a recommendation for a kind of job that training has never seen costs, on the rates of equal work.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.regret_rates [--keep DIR] [--write]

The questions of regret.py, of the rates: on which of the GPUs that its work was measured on is the job cheapest, or fastest?
Predictions are of recipes fitted without its group (protocol new-workload). A price is the least per GPU of the shipped table,
on demand, whole or as a share of an instance with more of them; a work on several GPUs costs that many times as much on every
candidate. The best constant choice is the best of all orders of the GPUs in hindsight, over these very questions: an order for
the mean over questions, another for the mean over groups, and one for each source; "of the other groups" is without hindsight.
Two minutes.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.recommendation import Objective
from epochcast.regressor.recipes import RECIPES

from .public_pairs import RATES, PublicPairs, header, line, options, report
from .regret import DRAWS, OBJECTIVES, PublicQuestions, setting

# By launch: 2024, 2022, 2022, 2021, 2020, 2020, 2017, 2016, 2014.
NEWEST_FIRST = (
    "H200 SXM",
    "H100 SXM5",
    "H100 PCIe",
    "A100 PCIe 80GB",
    "A100 SXM4 80GB",
    "A100 SXM4 40GB",
    "V100 SXM2 16GB",
    "P100 PCIe 16GB",
    "K80",
)

RECIPE, PEERS = "default", ("data-sheet-ridge", "geometric-mean")


def table(
    data: PublicQuestions, objective: Objective, predicted: dict[str, NDArray[np.float64]], groups: NDArray[np.str_]
) -> Iterator[str]:
    """One line per way to choose, and what came of the target."""
    yield from header(
        f"extra {objective} above the best choice", "mean %", "mean over groups %", "median %", "P90 %", "largest %", "right"
    )

    def row(what: str, regrets: NDArray[np.float64]) -> str:
        percent = 100 * regrets
        evened = percent @ evenly(np.resize(groups, len(percent)))
        figures = (percent.mean(), evened, *np.quantile(percent, (0.5, 0.9)), percent.max())
        return line(what, *(f"{figure:.2f}" for figure in figures), f"{np.mean(percent == 0):.1%}")

    ours = data.regrets(data.following(predicted[RECIPE]), objective)
    yield row(f"**predicted best, `{RECIPE}`**", ours)
    for peer in PEERS:
        yield row(f"predicted best, `{peer}`", data.regrets(data.following(predicted[peer]), objective))
    constants = {}
    for what, weights in (("questions", np.full(len(groups), 1 / len(groups))), ("groups", evenly(groups))):
        order = data.best_order(objective, weights=weights)
        constants[what] = data.regrets(data.in_order(order), objective)
        yield row(f"best constant choice over {what}: {', else '.join(order)}", constants[what])
    yield row("best constant choice of the other groups", elsewhere(data, objective, groups))
    yield row("always the newest GPU", data.regrets(data.in_order(NEWEST_FIRST), objective))
    yield row("always the cheapest per hour", data.regrets(lambda asked, _: int(np.argmin(asked.usd_per_hour)), objective))
    yield row("stay on the source", data.regrets(lambda asked, _: 0, objective))
    draw = np.random.default_rng(0)
    at_random = [data.regrets(lambda asked, _: int(draw.integers(len(asked.seconds))), objective) for _ in range(DRAWS)]
    yield row(f"at random, {DRAWS} draws", np.concatenate(at_random))
    yield ""
    for what, share in (
        ("mean", float(ours.mean() / constants["questions"].mean())),
        ("mean over groups", float(ours @ evenly(groups) / (constants["groups"] @ evenly(groups)))),
    ):
        kept = "kept" if share <= 0.5 else "missed"
        yield f"Target ({what} at most half of the best constant choice's): {kept}, {share:.2f} of it."


def elsewhere(data: PublicQuestions, objective: Objective, groups: NDArray[np.str_]) -> NDArray[np.float64]:
    """Regrets of the order that is best for the questions of all other groups, shape (n,)."""
    regrets = np.empty(len(groups))
    for group in np.unique(groups).tolist():
        here = groups == group
        order = data.best_order(objective, weights=(~here).astype(np.float64))
        regrets[here] = data.regrets(data.in_order(order), objective)[here]
    return regrets


def evenly(groups: NDArray[np.str_]) -> NDArray[np.float64]:
    """A weight for each question, shape (n,), so that every group counts the same."""
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    weights: NDArray[np.float64] = 1 / (counts[inverse] * len(counts))
    return weights


def by_source(data: PublicQuestions, seconds: NDArray[np.float64]) -> Iterator[str]:
    """Ours beside the constant choice that is best for each source."""
    origins = np.array([one.question.source.origin for one in data.asked])
    yield from header(
        "source", "questions", *(f"{what}, extra {of} %" for of in OBJECTIVES for what in ("ours", "best constant"))
    )
    for origin in np.unique(origins).tolist():
        here, cells = origins == origin, []
        for objective in OBJECTIVES:
            order = data.best_order(objective, weights=here.astype(np.float64))
            for choose in (data.following(seconds), data.in_order(order)):
                cells.append(f"{100 * data.regrets(choose, objective)[here].mean():.2f}")
        yield line(origin, f"{here.sum()}", *cells)


def lines(public: PublicPairs) -> Iterator[str]:
    """Cost and time, and both by source."""
    data = PublicQuestions.of(public, share=True)
    groups = np.array([one.question.source.group for one in data.asked])
    predicted = {name: public.predicted(RECIPES[name](), "new-workload") for name in (RECIPE, *PEERS)}
    yield from setting(data, "on-demand")
    for objective in OBJECTIVES:
        yield from table(data, objective, predicted, groups)
        yield ""
    yield from by_source(data, predicted[RECIPE])


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    report("regret_rates", lines(PublicPairs.load(chosen.keep, RATES)), chosen, page="recommendation")
