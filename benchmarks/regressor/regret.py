"""What following a recommendation costs above the best choice, beside choices that need no prediction.

    EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.regret [PART]... [--write]

One question per measured profile: on which of the GPUs that its workload was measured on is the job cheapest, or fastest? The
profile's own GPU is one of them, and its latency is known. Part `regret` asks about the public pairs, at prices of AWS in
us-east-1, where the data's authors measured, or the cheapest instance elsewhere. Part `regret_rates` asks about kinds of jobs
that training has never seen, on the rates of equal work; a price is the least per GPU of the shipped table, whole or as a share
of an instance with more of them, and a work on several GPUs costs that many times as much on every candidate. The paper's stack
takes ten minutes, all else three.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.instances import Instance, Market, load_instances
from epochcast.analyzer.recommendation import Objective
from epochcast.regressor import load_catalog
from epochcast.regressor.evaluation.questions import Question, questions
from epochcast.regressor.protocols import out_of_fold
from epochcast.regressor.recipes import RECIPES, DefaultRecipe, PaperRecipe, PriorRecipe

from ..page import RECOMMENDATION, markdown_table, part_options, publish_parts
from .public_pairs import RATES, PublicPairs

OBJECTIVES: tuple[Objective, ...] = ("cost", "time")
SEEDS = range(5)
DRAWS = 200
COLUMNS = ("mean %", "over shuffles", "mean over groups %", "median %", "P90 %", "largest %", "right")

# By launch: 2024, 2022, 2022, 2021, 2020, 2020, 2021, 2018, 2017, 2016, 2014.
NEWEST_FIRST = (
    "H200 SXM",
    "H100 SXM5",
    "H100 PCIe",
    "A100 PCIe 80GB",
    "A100 SXM4 80GB",
    "A100 SXM4 40GB",
    "A10G",
    "T4",
    "V100 SXM2 16GB",
    "P100 PCIe 16GB",
    "K80",
)

Choose = Callable[["Asked", Objective], int]
Predicted = Mapping[str, Sequence[NDArray[np.float64]]]
"""Seconds of all public pairs by name of the prediction, one array for each shuffle."""


@dataclass(frozen=True)
class Asked:
    """A question with its answer.

    Attributes:
        question: the profile and its candidates.
        instances: one for each candidate, shape (k,).
        usd_per_hour: of each.
        seconds: measured per epoch on each.
    """

    question: Question
    instances: tuple[Instance, ...]
    usd_per_hour: NDArray[np.float64]
    seconds: NDArray[np.float64]

    def weighed(self, seconds: NDArray[np.float64], objective: Objective) -> NDArray[np.float64]:
        """What is to be least: seconds, or seconds x price, shape (k,)."""
        return seconds * self.usd_per_hour if objective == "cost" else seconds

    def regret(self, choice: int, objective: Objective) -> float:
        """What the choice costs or takes above the best, as a share of the best."""
        truth = self.weighed(self.seconds, objective)
        return float(truth[choice] / truth.min() - 1)


@dataclass(frozen=True)
class PublicQuestions:
    """The questions of the public pairs between GPUs that have a price.

    Attributes:
        public: all pairs; recipes learn from all of them.
        rows: those pairs that the questions' own rows count.
        instances: one for each GPU.
        asked: the questions, of two candidates or more.
    """

    public: PublicPairs
    rows: NDArray[np.intp]
    instances: dict[str, Instance]
    asked: list[Asked]

    @classmethod
    def of(cls, public: PublicPairs, market: Market = "on-demand", share: bool = False) -> "PublicQuestions":
        """Price every GPU; a GPU without a price is no candidate and asks nothing.

        It is the price of an instance with one of it, AWS's before others', or with ``share`` the least price per GPU of all
        instances with any number of it.
        """
        rented: dict[str, Instance] = {}
        prices: dict[str, float] = {}
        preference = price_per_gpu if share else _preference
        for instance in sorted(load_instances(None, load_catalog())[0], key=lambda one: preference(one, market)):
            price = price_per_gpu(instance, market)
            if price < np.inf and (share or instance.count == 1) and instance.gpu not in rented:
                rented[instance.gpu], prices[instance.gpu] = instance, price
        known = list(prices)
        rows = np.flatnonzero(np.isin(public.sources, known) & np.isin(public.targets, known))
        asked = []
        for question in questions([public.pairs[row] for row in rows.tolist()]):
            instances = tuple(rented[gpu] for gpu in question.gpus)
            usd_per_hour = np.array([prices[gpu] for gpu in question.gpus])
            asked.append(Asked(question, instances, usd_per_hour, question.seconds(public.actual[rows])))
        used = sorted({gpu for one in asked for gpu in one.question.gpus})
        return cls(public, rows, {gpu: rented[gpu] for gpu in used}, asked)

    def following(self, predicted: NDArray[np.float64]) -> Choose:
        """Choose what is predicted to be best, from the seconds of all public pairs; of equals the source."""
        of_rows = predicted[self.rows]
        return lambda asked, objective: int(np.argmin(asked.weighed(asked.question.seconds(of_rows), objective)))

    def regrets(self, choose: Choose, objective: Objective) -> NDArray[np.float64]:
        """Of every question, shape (n,)."""
        return np.array([one.regret(choose(one, objective), objective) for one in self.asked])

    def in_order(self, order: Sequence[str]) -> Choose:
        """Choose the first of ``order`` that the workload was measured on, whatever the job."""
        return lambda asked, _: min(range(len(asked.question.gpus)), key=lambda k: order.index(asked.question.gpus[k]))

    def best_order(self, objective: Objective, among: NDArray[np.bool_]) -> tuple[str, ...]:
        """Of all orders of the GPUs the one of least mean regret over the questions ``among``: known in hindsight alone.

        What a GPU adds behind others depends on which these are, not on their order, so subsets take the place of orders.
        """
        gpus = list(self.instances)
        regrets = np.full((len(self.asked), len(gpus)), np.nan)
        for row in np.flatnonzero(among).tolist():
            for choice, gpu in enumerate(self.asked[row].question.gpus):
                regrets[row, gpus.index(gpu)] = self.asked[row].regret(choice, objective)
        best: dict[frozenset[str], tuple[float, tuple[str, ...]]] = {frozenset(): (0.0, ())}
        for _ in gpus:
            longer: dict[frozenset[str], tuple[float, tuple[str, ...]]] = {}
            for held, (regret, order) in best.items():
                left = np.isnan(regrets[:, [gpus.index(gpu) for gpu in order]]).all(axis=1)
                added = np.nansum(regrets[left], axis=0).tolist()
                for gpu, more in zip(gpus, added, strict=True):
                    if gpu not in held:
                        one_longer = (regret + more, (*order, gpu))
                        longer[held | {gpu}] = min(longer.get(held | {gpu}, one_longer), one_longer)
            best = longer
        return next(iter(best.values()))[1]


def price_per_gpu(instance: Instance, market: Market) -> float:
    """USD per hour; infinite where it is not known."""
    return (instance.price(market) or np.inf) / instance.count


def _preference(instance: Instance, market: Market) -> tuple[bool, bool, float]:
    return instance.cloud != "aws", instance.region != "us-east-1", price_per_gpu(instance, market)


def setting(data: PublicQuestions, market: Market) -> Iterator[str]:
    """The questions and the prices."""
    by_count = Counter(len(one.question.gpus) for one in data.asked)
    counts = ", ".join(f"{number} with {count} GPUs" for count, number in sorted(by_count.items()))
    workloads = len({one.question.source.workload for one in data.asked})
    yield f"{len(data.asked)} questions about {workloads} workloads: {counts}. Prices, USD/h {market}: " + ", ".join(
        f"{gpu} {price_per_gpu(instance, market):.4g} ({instance.cloud} {instance.name}, {instance.date.isoformat()})"
        for gpu, instance in data.instances.items()
    )
    unpriced = sorted(set(data.public.sources) - set(data.instances))
    if unpriced:
        yield f"Left out, for want of a price: {', '.join(unpriced)}."
    for objective in OBJECTIVES:
        best = Counter(one.question.gpus[int(np.argmin(one.weighed(one.seconds, objective)))] for one in data.asked)
        said = ", ".join(f"{gpu} {number / len(data.asked):.0%}" for gpu, number in best.most_common())
        yield f"Truly {'cheapest' if objective == 'cost' else 'fastest'}: {said}."
    yield ""


def table(data: PublicQuestions, objective: Objective, predicted: Predicted) -> Iterator[str]:
    """One line per way to choose; then the target and what came of it. The first prediction is ours."""
    groups = np.array([one.question.source.group for one in data.asked])
    order = data.best_order(objective, np.full(len(groups), True))
    constant = data.regrets(data.in_order(order), objective)
    draw = np.random.default_rng(0)
    at_random = [data.regrets(lambda asked, _: int(draw.integers(len(asked.seconds))), objective) for _ in range(DRAWS)]
    ways = {what: [data.regrets(data.following(one), objective) for one in runs] for what, runs in predicted.items()}
    ours = np.array(next(iter(ways.values())))
    ways |= {
        f"best constant choice, in hindsight: {', else '.join(order)}": [constant],
        "best constant choice of the other groups": [_of_other_groups(data, objective, groups)],
        "always the newest GPU": [data.regrets(data.in_order(NEWEST_FIRST), objective)],
        "always the cheapest per hour": [data.regrets(lambda asked, _: int(np.argmin(asked.usd_per_hour)), objective)],
        "stay on the source": [data.regrets(lambda asked, _: 0, objective)],
        f"at random, {DRAWS} draws": at_random,
    }
    rows = [(what, *figures(runs, groups)) for what, runs in ways.items()]
    yield from markdown_table((f"extra {objective} above the best choice", *COLUMNS), rows)
    yield ""
    best, mean, median = (100 * float(value) for value in (constant.mean(), ours.mean(), np.median(ours, axis=1).mean()))
    yield (
        f"Target (median 0 %, mean at most half of the best constant choice's): "
        f"{'kept' if median == 0 and mean <= best / 2 else 'missed'}; "
        f"median {median:.2f} %, mean {mean:.2f} % beside {best:.2f} %, {mean / best:.2f} of it."
    )
    of_question, workloads = 100 * ours.mean(axis=0), np.array([one.question.source.workload for one in data.asked])
    worst = max(sorted(set(workloads)), key=lambda name: float(of_question[workloads == name].sum()))
    here = workloads == worst
    rest = of_question[~here].mean()
    yield f"The workload that loses most is {worst}: without its {here.sum()} questions the mean is {rest:.2f} %."
    yield ""


def figures(runs: Sequence[NDArray[np.float64]], groups: NDArray[np.str_]) -> list[str]:
    """The cells of :data:`COLUMNS`: each the mean over runs of shape (n,)."""
    percent = 100 * np.array(runs)
    means = percent.mean(axis=1)
    spread = f"{means.min():.2f}–{means.max():.2f}" if len(means) > 1 else "one order"
    of_groups = np.mean([percent[:, groups == group].mean() for group in np.unique(groups)])
    median, p90, largest = (float(np.quantile(percent, q, axis=1).mean()) for q in (0.5, 0.9, 1.0))
    right = f"{np.mean(percent == 0):.1%}"
    return [f"{means.mean():.2f}", spread, f"{of_groups:.2f}", f"{median:.2f}", f"{p90:.2f}", f"{largest:.1f}", right]


def _of_other_groups(data: PublicQuestions, objective: Objective, groups: NDArray[np.str_]) -> NDArray[np.float64]:
    """Regrets of the order that is best for the questions of all other groups, which needs no hindsight; shape (n,)."""
    regrets = np.empty(len(groups))
    for group in np.unique(groups).tolist():
        here = groups == group
        regrets[here] = data.regrets(data.in_order(data.best_order(objective, ~here)), objective)[here]
    return regrets


def regret() -> Iterator[str]:
    """Seven CNNs on four GPUs: cost and time, and the cost at spot prices."""
    public = PublicPairs.load()
    predicted = {
        "**predicted best, `default`**": [out_of_fold(public.pairs, "P2", DefaultRecipe(), seed)[0] for seed in SEEDS],
        "predicted best, `paper`": [public.predicted(PaperRecipe(), "P2")],
        "predicted best, `prior`, no training": [public.predicted(PriorRecipe(), "P2")],
        "predicted best, `default`, new architecture (P3)": [public.predicted(DefaultRecipe(), "P3")],
        "predicted best, `default`, new GPU (P4)": [public.predicted(DefaultRecipe(), "P4")],
    }
    markets: dict[Market, tuple[Objective, ...]] = {"on-demand": OBJECTIVES, "spot": ("cost",)}
    for market, objectives in markets.items():
        data = PublicQuestions.of(public, market)
        yield from setting(data, market)
        for objective in objectives:
            yield from table(data, objective, predicted)


def regret_rates() -> Iterator[str]:
    """Rates of equal work, each group of jobs left out of training."""
    public = PublicPairs.load(RATES)
    data = PublicQuestions.of(public, share=True)
    names = {"**predicted best, `default`**": "default"} | {
        f"predicted best, `{peer}`": peer for peer in ("data-sheet-ridge", "geometric-mean")
    }
    predicted = {what: [public.predicted(RECIPES[name](), "new-workload")] for what, name in names.items()}
    yield from setting(data, "on-demand")
    for objective in OBJECTIVES:
        yield from table(data, objective, predicted)


if __name__ == "__main__":
    publish_parts(RECOMMENDATION, {"regret": regret(), "regret_rates": regret_rates()}, part_options(__doc__))
