"""What following a recommendation costs above the best choice, beside choices that need no prediction.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.regret [--keep DIR] [--write]

One question per measured profile: on which of the GPUs that its workload was measured on is the job cheapest, or fastest? The
profile's own GPU is one of them, and its latency is known. Prices are of the shipped table: AWS in us-east-1, where the data's
authors measured, or the cheapest instance elsewhere. The paper's stack takes ten minutes; all else a minute.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.instances import Instance, Market, load_instances
from epochcast.analyzer.recommendation import Objective
from epochcast.regressor import load_catalog
from epochcast.regressor.evaluation.fastest_gpu import Question, questions
from epochcast.regressor.protocols import out_of_fold
from epochcast.regressor.recipes import DefaultRecipe, PaperRecipe, PriorRecipe

from .public_pairs import PublicPairs, header, line, options, report

OBJECTIVES: tuple[Objective, ...] = ("cost", "time")
SEEDS = range(5)
DRAWS = 200

# By year: A10G 2021, T4 2018, V100 2017, P100 2016.
NEWEST_FIRST = ("A10G", "T4", "V100 SXM2 16GB", "P100 PCIe 16GB")

Choose = Callable[["Asked", Objective], int]


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

    def best_order(
        self, objective: Objective, first: Sequence[str] = (), weights: NDArray[np.float64] | None = None
    ) -> tuple[str, ...]:
        """Of all orders that begin with ``first`` the one of least mean regret: known in hindsight alone.

        What a GPU adds behind others depends on which these are, not on their order, so subsets take the place of orders.
        """
        gpus = list(self.instances)
        regrets = np.full((len(self.asked), len(gpus)), np.nan)
        for row, one in enumerate(self.asked):
            for choice, gpu in enumerate(one.question.gpus):
                regrets[row, gpus.index(gpu)] = one.regret(choice, objective)
        weighed = regrets if weights is None else regrets * weights[:, None]
        best = {frozenset(first): (0.0, tuple(first))}
        for _ in range(len(gpus) - len(first)):
            longer: dict[frozenset[str], tuple[float, tuple[str, ...]]] = {}
            for held, (regret, order) in best.items():
                left = np.isnan(regrets[:, [gpus.index(gpu) for gpu in order]]).all(axis=1)
                added = np.nansum(weighed[left], axis=0).tolist()
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


COLUMNS = ("mean %", "over shuffles", "median %", "P90 %", "largest %", "right")


def figures(runs: Sequence[NDArray[np.float64]]) -> list[str]:
    """The cells of :data:`COLUMNS`: each the mean over runs of shape (n,)."""
    percent = 100 * np.array(runs)
    means = percent.mean(axis=1)
    spread = f"{means.min():.2f}–{means.max():.2f}" if len(means) > 1 else "one order"
    median, p90, largest = (float(np.quantile(percent, q, axis=1).mean()) for q in (0.5, 0.9, 1.0))
    right = f"{np.mean(percent == 0):.1%}"
    return [f"{means.mean():.2f}", spread, f"{median:.2f}", f"{p90:.2f}", f"{largest:.1f}", right]


def table(data: PublicQuestions, objective: Objective, default: Sequence[NDArray[np.float64]]) -> Iterator[str]:
    """One line per way to choose; then the target and what came of it. ``default`` is what ours predicts, by shuffle."""
    public = data.public
    extra = "extra cost" if objective == "cost" else "extra time"
    yield from header(f"{extra} above the best choice", *COLUMNS)
    ours = _runs(data, default, objective)
    yield line("**predicted best, `default`**", *figures(ours))
    for name, recipe in (("`paper`", PaperRecipe()), ("`prior`, no training", PriorRecipe())):
        yield line(f"predicted best, {name}", *figures(_runs(data, [public.predicted(recipe, "P2")], objective)))
    for protocol, what in (("P3", "new architecture"), ("P4", "new GPU")):
        predicted = [public.predicted(DefaultRecipe(), protocol)]
        yield line(f"predicted best, `default`, {what} ({protocol})", *figures(_runs(data, predicted, objective)))
    newest = data.regrets(data.in_order(NEWEST_FIRST), objective)
    yield line("always the newest GPU", *figures([newest]))
    cheapest = data.regrets(lambda asked, _: int(np.argmin(asked.usd_per_hour)), objective)
    yield line("always the cheapest per hour", *figures([cheapest]))
    constants = {"newest": newest, "cheapest": cheapest}
    for gpu in data.instances:
        order = data.best_order(objective, [gpu])
        constants[gpu] = data.regrets(data.in_order(order), objective)
        yield line(f"always {', else '.join(order)}", *figures([constants[gpu]]))
    yield line("stay on the source", *figures([data.regrets(lambda asked, _: 0, objective)]))
    draw = np.random.default_rng(0)
    at_random = [data.regrets(lambda asked, _: int(draw.integers(len(asked.seconds))), objective) for _ in range(DRAWS)]
    yield line(f"at random, {DRAWS} draws", *figures(at_random))
    yield ""
    yield _verdict(np.array(ours), constants)
    yield _worst(data, np.array(ours))


def _runs(data: PublicQuestions, predicted: Sequence[NDArray[np.float64]], objective: Objective) -> list[NDArray[np.float64]]:
    return [data.regrets(data.following(seconds), objective) for seconds in predicted]


def _verdict(ours: NDArray[np.float64], constants: dict[str, NDArray[np.float64]]) -> str:
    best = 100 * min(float(regrets.mean()) for regrets in constants.values())
    mean, median = 100 * float(ours.mean()), 100 * float(np.median(ours, axis=1).mean())
    kept = "kept" if median == 0 and mean <= best / 2 else "missed"
    return (
        f"Target (median 0 %, mean at most half of the best constant choice's): {kept}; "
        f"median {median:.2f} %, mean {mean:.2f} % beside {best:.2f} %, {mean / best:.2f} of it."
    )


def _worst(data: PublicQuestions, ours: NDArray[np.float64]) -> str:
    """How much of the mean is one workload's."""
    of_question, workloads = ours.mean(axis=0), np.array([one.question.source.workload for one in data.asked])
    worst = max(sorted(set(workloads)), key=lambda name: float(of_question[workloads == name].sum()))
    here = workloads == worst
    rest = 100 * float(of_question[~here].mean())
    return f"The workload that loses most is {worst}: without its {here.sum()} questions the mean is {rest:.2f} %."


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


def lines(public: PublicPairs) -> Iterator[str]:
    """Cost and time, and the cost at spot prices."""
    default = [out_of_fold(public.pairs, "P2", DefaultRecipe(), seed)[0] for seed in SEEDS]
    on_demand, spot = PublicQuestions.of(public), PublicQuestions.of(public, "spot")
    yield from setting(on_demand, "on-demand")
    for objective in OBJECTIVES:
        yield from table(on_demand, objective, default)
        yield ""
    yield from setting(spot, "spot")
    yield from table(spot, "cost", default)


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    report("regret", lines(PublicPairs.load(chosen.keep)), chosen, page="recommendation")
