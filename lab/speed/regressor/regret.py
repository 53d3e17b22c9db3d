"""What following a recommendation costs above the best choice, next to choices that need no prediction.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.regret [PART]... [--write]

One question per measured profile: on which of the GPUs that its workload was measured on is the job cheapest, or fastest? The
profile's own GPU is one of them, and its latency is known. Part `regret` asks about the public pairs, at prices of AWS in
us-east-1, where the data's authors measured, or the cheapest instance elsewhere. Part `regret_rates` asks about kinds of jobs
that training has never seen, on the rates of equal work; a price is the least per GPU of the shipped table, whole or as a share
of an instance with more of them, and a work on several GPUs costs that many times as much on every candidate. The paper's stack
takes ten minutes, all else three.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.jobs.prices import Instance, Market, load_instances
from epochcast.analyzer.jobs.rank import Objective
from epochcast.regressor import load_catalog
from epochcast.regressor.recipes import DefaultRecipe, PaperRecipe
from lab.evaluate.latency.fastest_gpu import MeasuredProfile, measured_profiles
from lab.evaluate.latency.out_of_fold import out_of_fold
from lab.rivals.latency import RECIPES
from lab.rivals.latency.prior import PriorRecipe
from lab.speed.page import RECOMMENDATION, markdown_table, part_options, publish_parts
from lab.speed.regressor.public_pairs import RATES, PublicPairs

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

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PublicQuestions:
    """The questions of the public pairs between GPUs that have a price.

    Attributes:
        public: all pairs; recipes learn from all of them.
        rows: those pairs that the questions' own rows count.
        instances: one for each GPU.
        usd_per_hour: of each GPU.
        asked: the questions, of two candidates or more.
    """

    public: PublicPairs
    rows: NDArray[np.intp]
    instances: dict[str, Instance]
    usd_per_hour: dict[str, float]
    asked: list[MeasuredProfile]

    @classmethod
    def of(cls, public: PublicPairs, market: Market = "on-demand", share: bool = False) -> "PublicQuestions":
        """Price every GPU; a GPU without a price is no candidate and asks nothing.

        It is the price of an instance with one of it, AWS's before others', or with ``share`` the least price per GPU of all
        instances with any number of it.
        """

        def preference(instance: Instance) -> tuple[bool, bool, float]:
            elsewhere = (not share and instance.cloud != "aws", not share and instance.region != "us-east-1")
            return *elsewhere, _price_per_gpu(instance, market)

        rented: dict[str, Instance] = {}
        for instance in sorted(load_instances(None, load_catalog())[0], key=preference):
            if _price_per_gpu(instance, market) < np.inf and (share or instance.count == 1):
                rented.setdefault(instance.gpu, instance)
        rows = np.flatnonzero(np.isin(public.sources, list(rented)) & np.isin(public.targets, list(rented)))
        asked = measured_profiles([public.pairs[row] for row in rows.tolist()])
        used = sorted({gpu for question in asked for gpu in question.gpus})
        prices = {gpu: _price_per_gpu(rented[gpu], market) for gpu in used}
        return cls(public, rows, {gpu: rented[gpu] for gpu in used}, prices, asked)

    def weighed(self, question: MeasuredProfile, seconds: Array, objective: Objective) -> Array:
        """What is to be least on each candidate, shape (k,): seconds, or seconds x price; from those of all public pairs."""
        on_candidates = question.seconds(seconds[self.rows])
        return on_candidates * [self.usd_per_hour[gpu] for gpu in question.gpus] if objective == "cost" else on_candidates

    def regrets(self, objective: Objective) -> list[Array]:
        """What each candidate of each question costs or takes above the best, as shares of the best, shape (k,) each."""
        truths = (self.weighed(question, self.public.actual, objective) for question in self.asked)
        return [truth / truth.min() - 1 for truth in truths]

    def following(self, seconds: Array, objective: Objective) -> list[int]:
        """What is predicted to be best, from the seconds of all public pairs; of equals the source."""
        return [int(np.argmin(self.weighed(question, seconds, objective))) for question in self.asked]

    def in_order(self, order: Sequence[str]) -> list[int]:
        """The first GPU of ``order`` that the workload was measured on, the same order for every job."""
        return [int(np.argmin([order.index(gpu) for gpu in question.gpus])) for question in self.asked]

    def best_order(self, objective: Objective, among: NDArray[np.bool_]) -> tuple[str, ...]:
        """Of all orders of the GPUs the one of least mean regret over the questions ``among``: known in hindsight alone.

        What a GPU adds behind others depends on which these are, not on their order, so subsets take the place of orders.
        """
        gpus = list(self.instances)
        regrets = np.full((len(self.asked), len(gpus)), np.nan)
        for row, of_question in enumerate(self.regrets(objective)):
            regrets[row, [gpus.index(gpu) for gpu in self.asked[row].gpus]] = of_question if among[row] else np.nan
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


def _price_per_gpu(instance: Instance, market: Market) -> float:
    """USD per hour; infinite where it is not known."""
    return (instance.price(market) or np.inf) / instance.count


def setting(data: PublicQuestions, market: Market) -> Iterator[str]:
    """The questions and the prices."""
    by_count = Counter(len(question.gpus) for question in data.asked)
    counts = ", ".join(f"{number} with {count} GPUs" for count, number in sorted(by_count.items()))
    workloads = len({question.source.workload for question in data.asked})
    yield f"{len(data.asked)} questions about {workloads} workloads: {counts}. Prices, USD/h {market}: " + ", ".join(
        f"{gpu} {data.usd_per_hour[gpu]:.4g} ({instance.cloud} {instance.name}, {instance.date.isoformat()})"
        for gpu, instance in data.instances.items()
    )
    unpriced = sorted(set(data.public.sources) - set(data.instances))
    if unpriced:
        yield f"Left out, because they have no price: {', '.join(unpriced)}."
    for objective, what in zip(OBJECTIVES, ("cheapest", "fastest"), strict=True):
        choices = data.following(data.public.actual, objective)
        best = Counter(question.gpus[choice] for question, choice in zip(data.asked, choices, strict=True))
        shares = ", ".join(f"{gpu} {number / len(data.asked):.0%}" for gpu, number in best.most_common())
        yield f"Truly {what}: {shares}."
    yield ""


def table(data: PublicQuestions, objective: Objective, predicted: Mapping[str, Sequence[Array]]) -> Iterator[str]:
    """One line per way to choose; then the target and what came of it.

    ``predicted`` are seconds of all public pairs by name of the prediction, one array for each shuffle; the first is ours.
    """
    by_question = data.regrets(objective)
    groups = np.array([question.source.group for question in data.asked])

    def regrets(choices: Sequence[int]) -> Array:
        return np.array([of_question[choice] for of_question, choice in zip(by_question, choices, strict=True)])

    order, without = data.best_order(objective, np.full(len(groups), True)), np.empty(len(groups))
    for group in np.unique(groups).tolist():
        here = groups == group
        without[here] = regrets(data.in_order(data.best_order(objective, ~here)))[here]
    ways = {what: [regrets(data.following(seconds, objective)) for seconds in runs] for what, runs in predicted.items()}
    ours, constant = np.array(next(iter(ways.values()))), regrets(data.in_order(order))
    cheapest = [int(np.argmin([data.usd_per_hour[gpu] for gpu in question.gpus])) for question in data.asked]
    draw = np.random.default_rng(0)
    at_random = [regrets([int(draw.integers(len(question.gpus))) for question in data.asked]) for _ in range(DRAWS)]
    ways |= {
        f"best constant choice, in hindsight: {', else '.join(order)}": [constant],
        "best constant choice of the other groups": [without],
        "always the newest GPU": [regrets(data.in_order(NEWEST_FIRST))],
        "always the cheapest per hour": [regrets(cheapest)],
        "stay on the source": [regrets([0] * len(groups))],
        f"at random, {DRAWS} draws": at_random,
    }
    rows = [(what, *figures(runs, groups)) for what, runs in ways.items()]
    yield from markdown_table((f"extra {objective} above the best choice", *COLUMNS), rows)
    yield ""
    best, mean, median = (100 * float(value) for value in (constant.mean(), ours.mean(), np.median(ours, axis=1).mean()))
    yield (
        f"Target (median 0 %, mean at most half of the best constant choice's): "
        f"{'kept' if median == 0 and mean <= best / 2 else 'missed'}; "
        f"median {median:.2f} %, mean {mean:.2f} %, {mean / best:.2f} of the constant choice's {best:.2f} %."
    )
    of_question, workloads = 100 * ours.mean(axis=0), np.array([question.source.workload for question in data.asked])
    worst = max(sorted(set(workloads)), key=lambda name: float(of_question[workloads == name].sum()))
    here = workloads == worst
    rest = of_question[~here].mean()
    yield f"The workload that loses most is `{worst}`: without its {here.sum()} questions the mean is {rest:.2f} %."
    yield ""


def figures(runs: Sequence[Array], groups: NDArray[np.str_]) -> list[str]:
    """The cells of :data:`COLUMNS`: each the mean over runs of shape (n,)."""
    percent = 100 * np.array(runs)
    means = percent.mean(axis=1)
    spread = f"{means.min():.2f}–{means.max():.2f}" if len(means) > 1 else "one order"
    of_groups = np.mean([percent[:, groups == group].mean() for group in np.unique(groups)])
    median, p90, largest = (float(np.quantile(percent, q, axis=1).mean()) for q in (0.5, 0.9, 1.0))
    right = f"{np.mean(percent == 0):.1%}"
    return [f"{means.mean():.2f}", spread, f"{of_groups:.2f}", f"{median:.2f}", f"{p90:.2f}", f"{largest:.1f}", right]


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
    predicted = {what: [public.predicted(RECIPES[name](), "P3")] for what, name in names.items()}
    yield from setting(data, "on-demand")
    for objective in OBJECTIVES:
        yield from table(data, objective, predicted)


if __name__ == "__main__":
    publish_parts(RECOMMENDATION, {"regret": regret(), "regret_rates": regret_rates()}, part_options(__doc__))
