"""What holds for every recommendation, with any predictions, price table and limits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from epochcast.analyzer.jobs.memory import MemoryNeed
from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.prices import Instance
from epochcast.analyzer.jobs.rank import JobLimits, Objective, Ranking, rank_instances
from epochcast.regressor import Prediction, load_catalog

CATALOG = load_catalog()
GPUS = ("K80", "T4", "P100 PCIe 16GB", "A10G", "V100 SXM2 16GB", "A100 SXM4 80GB")
CLOUDS = ("aws", "gcp", "lambda")
REGIONS = ("us-east-1", "eu-west-1", "any")
OBJECTIVES: tuple[Objective, ...] = ("cost", "time")
POWERS = st.sampled_from([2.0**power for power in range(-6, 7)])
"""Factors that round nothing, so that an order must stay exactly as it was."""
EXAMPLES = settings(max_examples=40, deadline=None)
"""An example is expensive to draw: some ten instances and predictions."""


@dataclass(frozen=True)
class Asked:
    """Arguments of `recommend`."""

    predictions: tuple[Prediction, ...]
    instances: tuple[Instance, ...]
    limits: JobLimits
    need: MemoryNeed | None

    def ranked(self, objective: Objective = "cost") -> Ranking:
        return rank_instances(
            self.predictions, self.instances, CATALOG, need=self.need, limits=self.limits, objective=objective
        )


@st.composite
def _prediction(draw: st.DrawFn, gpu: str, measured: bool, epoch_s: float) -> Prediction:
    if measured:
        return Prediction(gpu, 1.0, epoch_s, epoch_s, epoch_s, "here", 1.0, 1.0, "measured", 1.0, ())
    ratio = draw(st.sampled_from([0.25, 0.5, 1.0, 2.0]) | st.floats(0.05, 20))
    low, high = draw(st.floats(0.5, 1)), draw(st.floats(1, 2))
    seconds = epoch_s * ratio
    return Prediction(
        gpu, ratio, seconds, seconds * low, seconds * high, "a model", ratio * low, ratio * high, "ensemble", 1.0, ()
    )


# Round figures too, so that there are ties.
PRICES = st.sampled_from([0.5, 1.0, 2.0, 4.0]) | st.floats(0.05, 50)
KINDS = ("deadline", "budget", "region", "cloud", "market", "memory")


@st.composite
def _instance(draw: st.DrawFn, name: str) -> Instance:
    prices = draw(st.tuples(PRICES, PRICES))
    unknown = draw(st.sampled_from([None, None, None, 0, 1]))
    on_demand, spot = (None if number == unknown else price for number, price in enumerate(prices))
    gpu, cloud, region = (draw(st.sampled_from(known)) for known in (GPUS, CLOUDS, REGIONS))
    return Instance(
        cloud, name, gpu, draw(st.integers(1, 8)), region, on_demand, "a page", date(2026, 2, 9), spot_usd_per_hour=spot
    )


@st.composite
def asked(draw: st.DrawFn, *, limited: bool = True) -> Asked:
    """Predictions for three GPUs or more, the first of which is the source, and up to twelve instances; two limits at most."""
    gpus = draw(st.permutations(GPUS))[: draw(st.integers(3, len(GPUS)))]
    epoch_s = draw(st.floats(0.1, 1e4))
    predictions = tuple(draw(_prediction(gpu, number == 0, epoch_s)) for number, gpu in enumerate(gpus))
    instances = tuple(draw(_instance(f"i{number}")) for number in range(draw(st.integers(3, 12))))
    kinds = draw(st.sets(st.sampled_from(KINDS), max_size=2)) if limited else set()
    regions = sorted({one.region for one in instances} - {"any"})
    limits = JobLimits(
        deadline_s=epoch_s * draw(st.floats(0.2, 10)) if "deadline" in kinds else None,
        budget_usd=epoch_s / 3600 * draw(st.floats(0.1, 50)) if "budget" in kinds else None,
        regions=[draw(st.sampled_from(regions))] if "region" in kinds and regions else [],
        clouds=draw(st.permutations(sorted({one.cloud for one in instances})))[:2] if "cloud" in kinds else [],
        market="spot" if "market" in kinds else "on-demand",
    )
    sizes = st.sampled_from([4e9, 13e9, 15e9, 20e9, 60e9])
    return Asked(
        predictions, instances, limits, draw(st.builds(MemoryNeed, sizes, st.booleans())) if "memory" in kinds else None
    )


def _places(rows: Sequence[Placement]) -> list[str]:
    return [row.instance.name for row in rows]


def _front(ranking: Ranking) -> set[str]:
    return {row.instance.name for row in ranking.placements if row.pareto}


def _name(row: Placement | None) -> str | None:
    return None if row is None else row.instance.name


@given(asked=asked(), objective=st.sampled_from(OBJECTIVES))
@EXAMPLES
def test_no_limit_is_ever_violated_and_nothing_vanishes(asked: Asked, objective: Objective) -> None:
    ranking, limits, need = asked.ranked(objective), asked.limits, asked.need
    for row in ranking.placements:
        instance, price = row.instance, row.usd_per_hour
        assert price == (instance.usd_per_hour if limits.market == "on-demand" else instance.spot_usd_per_hour)
        assert not limits.clouds or instance.cloud in limits.clouds
        assert not limits.regions or instance.region in {*limits.regions, "any"}
        assert row.seconds is not None
        assert limits.deadline_s is None or row.seconds.value <= limits.deadline_s
        assert limits.budget_usd is None or row.seconds.value * price / 3600 <= limits.budget_usd * (1 + 1e-12)
        if need is not None and not need.reserved:
            assert need.bytes <= CATALOG[instance.gpu].memory
    answered = {one.instance.name for one in (*ranking.placements, *ranking.left_out)}
    wanted = {
        one.name
        for one in asked.instances
        if one.gpu in {prediction.gpu for prediction in asked.predictions}
        and (not limits.clouds or one.cloud in limits.clouds)
        and (not limits.regions or one.region in {*limits.regions, "any"})
    }
    assert answered == wanted
    assert len(ranking.placements) + len(ranking.left_out) == len(wanted)


@given(asked=asked())
@EXAMPLES
def test_the_front_is_what_comparing_all_with_all_gives(asked: Asked) -> None:
    ranking = asked.ranked()
    points = {row.instance.name: (row.seconds.value, row.usd.value) for row in ranking.placements if row.seconds and row.usd}
    beaten = {
        name
        for name, (seconds, usd) in points.items()
        if any(s <= seconds and c <= usd and (s, c) != (seconds, usd) for s, c in points.values())
    }
    assert _front(ranking) == set(points) - beaten


@given(asked=asked(), objective=st.sampled_from(OBJECTIVES), data=st.data())
@EXAMPLES
def test_a_dominated_instance_changes_nothing(asked: Asked, objective: Objective, data: st.DataObject) -> None:
    before = asked.ranked(objective)
    assume(before.placements)
    better = data.draw(st.sampled_from(before.placements), label="better")
    slower = [one.gpu for one in asked.predictions if one.ratio > better.prediction.ratio]
    gpu = data.draw(st.sampled_from([better.instance.gpu, *slower]), label="gpu")
    factor = data.draw(st.floats(1.001, 10) if gpu == better.instance.gpu else st.floats(1, 10), label="price")
    worse = replace(
        better.instance,
        name="0-worse",
        gpu=gpu,
        usd_per_hour=factor * better.usd_per_hour,
        spot_usd_per_hour=factor * better.usd_per_hour,
    )
    after = replace(asked, instances=(worse, *asked.instances)).ranked(objective)
    assert _places(after.placements)[0] == _places(before.placements)[0]
    assert [name for name in _places(after.placements) if name != worse.name] == _places(before.placements)
    assert _front(after) == _front(before)


@given(asked=asked(), factor=POWERS)
@EXAMPLES
def test_prices_scale_linearly(asked: Asked, factor: float) -> None:
    instances = tuple(
        replace(
            one,
            usd_per_hour=one.usd_per_hour and factor * one.usd_per_hour,
            spot_usd_per_hour=one.spot_usd_per_hour and factor * one.spot_usd_per_hour,
        )
        for one in asked.instances
    )
    budget = asked.limits.budget_usd and factor * asked.limits.budget_usd
    plain = asked.ranked()
    scaled = replace(asked, instances=instances, limits=replace(asked.limits, budget_usd=budget)).ranked()
    assert _places(scaled.placements) == _places(plain.placements)
    assert _front(scaled) == _front(plain)
    for one, other in zip(plain.placements, scaled.placements, strict=True):
        assert one.usd is not None and one.usd.times(factor) == other.usd and one.seconds == other.seconds
        assert one.budget_chance == pytest.approx(other.budget_chance)


@given(asked=asked(), objective=st.sampled_from(OBJECTIVES), data=st.data())
@EXAMPLES
def test_the_order_of_the_input_is_none_of_the_answer(asked: Asked, objective: Objective, data: st.DataObject) -> None:
    plain = asked.ranked(objective)
    shuffled = replace(
        asked,
        predictions=tuple(data.draw(st.permutations(asked.predictions))),
        instances=tuple(data.draw(st.permutations(asked.instances))),
    ).ranked(objective)
    assert shuffled.placements == plain.placements
    assert {(one.instance.name, one.reason) for one in shuffled.left_out} == {
        (one.instance.name, one.reason) for one in plain.left_out
    }
