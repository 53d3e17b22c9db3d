"""Measured pairs: what is read and left out, what rules may see, and scores by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.occupancy.packing_interference import (
    PROTOCOLS,
    RULES,
    TIME_SLICING,
    Pairs,
    by_gain,
    packed,
    pair_slowdown,
    predictions,
    random_pair,
    read_pairs,
    scores,
    self_pair,
    throughputs,
    total_rate,
)
from made_jobs import job

from epochcast.analyzer.backends.occupancy.packing.job import PackedGpu, PackedJob

TYPES = {f"{model} (batch size {batch})": (model, 20.0 / batch) for model in ("A", "B", "C") for batch in (1, 2, 4)}
NAMES = list(TYPES)


def pairs_table(types: Mapping[str, tuple[str, float]] = TYPES) -> pd.DataFrame:
    """All ordered pairs; a job's rate next to another is 0.5 x (its rate / the other's) ^ -0.2: short steps suffer."""
    return pd.DataFrame(
        [
            {
                "gpu": "k80",
                "job_a": a,
                "sf_a": 1,
                "job_b": b,
                "sf_b": 1,
                "iso_a": own,
                "iso_b": other,
                "co_a": own * 0.5 * (own / other) ** -0.2,
                "co_b": other * 0.5 * (other / own) ** -0.2,
            }
            for a, (_, own) in types.items()
            for b, (_, other) in types.items()
        ]
    )


def read(folder: Path, table: pd.DataFrame) -> list[Pairs]:
    table.to_csv(folder / "pairs.csv", index=False)
    return list(read_pairs(folder / "pairs.csv"))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    return read(tmp_path_factory.mktemp("pairs"), pairs_table())[0]


def test_what_is_left_out_and_why(tmp_path: Path) -> None:
    table = pairs_table()
    table.loc[1, ["sf_a", "sf_b"]] = 2
    table.loc[2, ["co_a", "co_b"]] = 0
    last = NAMES[-1]
    table.loc[table["job_a"] == last, ["iso_a", "co_a", "co_b"]] = 0
    table.loc[table["job_b"] == last, ["iso_b", "co_a", "co_b"]] = 0
    table = pd.concat([table, table.assign(gpu="p100")])
    k80, p100 = read(tmp_path, table)
    assert (k80.gpu, p100.gpu) == ("K80", "P100")
    assert k80.left_out == {
        "of several GPUs": 1,
        "with a job that does not run alone": 17,
        "that did not run together": 1,
    }
    assert last not in k80.types
    assert len(k80.types) == 8
    assert last not in set(k80.views["job"])
    one = k80.views[(k80.views["job"] == NAMES[4]) & (k80.views["other"] == NAMES[0])].iloc[0]
    assert (one["model"], one["other_model"]) == ("B", "A")
    assert one["slowdown"] == pytest.approx(2 * (10.0 / 20.0) ** 0.2)


def test_a_pair_that_stands_in_one_order_alone_is_seen_from_both(tmp_path: Path) -> None:
    table = pairs_table()
    views = read(tmp_path, table[table["job_a"] <= table["job_b"]])[0].views
    assert len(views) == len(table)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("rule", ["step rates", "model"])
def test_no_fit_saw_the_pair_or_its_like(pairs: Pairs, rule: str, protocol: str) -> None:
    """Other slowdowns of all pairs with either of two types, or models, leave the prediction of the two as it is."""
    views = pairs.views
    one, two = (views[column] for column in PROTOCOLS[protocol])
    a, b = one.iloc[0], two.iloc[-1]
    alike = one.isin([a, b]) | two.isin([a, b])
    changed = views.assign(slowdown=views["slowdown"] * np.where(alike, 10, 1))
    before, after = (predictions(each, rule, protocol) for each in (views, changed))
    pair = ((one == a) & (two == b)) | ((one == b) & (two == a))
    assert before[pair] == pytest.approx(after[pair])
    assert before[~alike] != pytest.approx(after[~alike])
    assert np.isfinite(before).all()


@pytest.mark.parametrize("rule", RULES)
def test_rules_find_what_the_measurements_were_made_of(pairs: Pairs, rule: str) -> None:
    mape = float(scores(pairs.views, predictions(pairs.views, rule, "types"))[0])
    assert mape < 0.3 * float(scores(pairs.views, np.full(len(pairs.views), TIME_SLICING))[0])


def test_scores_by_hand() -> None:
    views = pd.DataFrame(
        {
            "job": ["a", "b", "a", "c", "a", "b", "c"],
            "other": ["b", "a", "c", "a", "a", "c", "b"],
            "slowdown": [1.25, 2.0, 2.5, 2.0, 7.0, 2.5, 2.5],
        }
    )
    predicted = np.array([1.25, 4.0, 2.0, 1.6, 1.0, 2.1, 2.1])
    # not a next to itself; errors 0, 1, 0.2, 0.2, 0.16, 0.16
    # a and b: 0.8 + 0.5 gain, by the rule 0.8 + 0.25; a and c: 0.4 + 0.5 lose, by the rule 0.5 + 0.625; b and c: 0.8, 0.95
    assert scores(views, predicted) == ("28.7", "18.0", "67 %", "1.100 (2)")
    assert scores(views, np.full(7, 2.0))[2:] == ("67 %", "none")
    different = (views["job"] != views["other"]).to_numpy()
    measured = views["slowdown"].to_numpy()[different]
    assert throughputs(views[different], measured, measured)["measured"].tolist() == pytest.approx([1.3, 0.9, 0.8])


def test_pairs_as_a_curve(pairs: Pairs) -> None:
    curve = pair_slowdown(pairs.views, pairs.views["slowdown"].to_numpy())
    fast, slow = NAMES[0], NAMES[2]
    assert curve([job(kind=fast)]) == [1.0]
    assert curve([job(kind=fast), job(kind=slow)]) == pytest.approx([2 * 4**0.2, 2 * 4**-0.2])
    assert total_rate(curve, [job(kind=fast), job(kind=slow)]) == pytest.approx((4**-0.2 + 4**0.2) / 2)
    assert curve([job(kind=fast), job(kind="other")]) == [float("inf")] * 2
    assert curve([job(kind=fast)] * 3) == [float("inf")] * 3


def test_self_pairs_without_a_measurement_take_turns(pairs: Pairs) -> None:
    views = pairs.views.assign(slowdown=3.0)
    without = views[~((views["job"] == NAMES[0]) & (views["other"] == NAMES[0]))]
    features = self_pair(without)
    assert features[:, 2] == pytest.approx(np.log(np.where(without["job"] == NAMES[0], 2.0, 3.0)))
    assert features[:, 3] == pytest.approx(np.log(np.where(without["other"] == NAMES[0], 2.0, 3.0)))


def gpus(*kinds: str) -> list[PackedGpu]:
    return [PackedGpu(1.0, [job(kind=kind)] if kind else []) for kind in kinds]


def light(jobs: Sequence[PackedJob]) -> Sequence[float]:
    """Each kind says how many times as long others take next to it; nothing runs next to "alone"."""
    slow = {"a": 1.2, "b": 1.5, "busy": 2.0, "alone": float("inf")}
    return [
        np.prod([slow[other.kind] for place, other in enumerate(jobs) if place != own], initial=1.0) for own in range(len(jobs))
    ]


def test_by_gain_takes_the_greatest_and_lets_wait_what_costs_more_than_it_does() -> None:
    policy = by_gain(light)
    queue = [job(kind=kind) for kind in ("alone", "busy", "b", "b", "a")]
    assert policy(queue, gpus("busy", "b")) == (4, 1)
    assert policy(queue[:4], gpus("busy", "b")) == (2, 1)  # the first of its kind
    assert policy(queue, gpus("busy", "")) == (0, 1)
    assert policy(queue[:2], gpus("busy")) is None
    assert policy([], gpus("")) is None


def test_random_pairs_are_only_such_that_can_be() -> None:
    policy = random_pair(light, np.random.default_rng(0))
    queue = [job(kind=kind) for kind in ("alone", "a", "busy")]
    placements = {policy(queue, gpus("a", "a")) for _ in range(100)}
    assert placements >= {(position, index) for position in (1, 2) for index in (0, 1)}
    assert policy(queue, gpus("a", "")) == (0, 1)


def test_policies_on_measured_pairs(pairs: Pairs) -> None:
    rows = packed(pairs, "types", 12, 2)
    assert list(rows["policy"].unique()) == ["slot", "random pairs", *RULES, "oracle"]
    slowed = rows.groupby("policy")["run_slowdown"].mean()
    assert slowed["slot"] == pytest.approx(1)
    assert slowed["random pairs"] > 1.3
    again = packed(pairs, "types", 12, 2)
    pd.testing.assert_frame_equal(rows, again)


def test_the_public_table(shared_data: Path) -> None:
    every = {one.gpu: one for one in read_pairs(shared_data / "occupancy/gavel_pairs.csv.gz")}
    assert {name: (len(one.views), len(one.types)) for name, one in every.items()} == {"K80": (589, 25), "P100": (656, 26)}
    views = every["P100"].views
    mape, _, rightly, _ = scores(views, predictions(views, "self-pair", "models"))
    assert float(mape) < float(scores(views, np.full(len(views), TIME_SLICING))[0])
    assert rightly == "76 %"
