"""Measured pairs: what is read and left out, what rules may see, and scores by hand."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.occupancy.packing_interference import measured_slowdown, pair_policies, pair_streams
from made_jobs import job

from epochcast.analyzer.backends.occupancy.packing import interference
from epochcast.analyzer.backends.occupancy.packing.experiment import Cluster, compare
from epochcast.analyzer.backends.occupancy.packing.gavel_pairs import GavelPairs, read_gavel_pairs
from epochcast.analyzer.backends.occupancy.packing.interference import (
    PROTOCOLS,
    beside_itself,
    left_out,
    pair_slowdown,
    score,
)
from epochcast.analyzer.backends.occupancy.packing.job_stream import StreamShape
from epochcast.analyzer.errors import InputError

TYPES = {f"{model} (batch size {batch})": (model, 20.0 / batch) for model in ("A", "B", "C") for batch in (1, 2, 4)}
NAMES = list(TYPES)


def pairs_table(types: Mapping[str, tuple[str, float]] = TYPES) -> pd.DataFrame:
    """All ordered pairs; a job's rate beside another is 0.5 x (its rate / the other's) ^ -0.2: short steps suffer."""
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


def read(folder: Path, table: pd.DataFrame) -> list[GavelPairs]:
    table.to_csv(folder / "pairs.csv", index=False)
    return read_gavel_pairs(folder / "pairs.csv")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> GavelPairs:
    return read(tmp_path_factory.mktemp("pairs"), pairs_table())[0]


def test_what_is_left_out_and_why(tmp_path: Path) -> None:
    table = pairs_table()
    table = pd.concat([table, table.head(1)], ignore_index=True)  # repeated
    table.loc[1, ["sf_a", "sf_b"]] = 2
    table.loc[2, ["co_a", "co_b"]] = 0
    table.loc[3, "co_a"] = table.loc[3, "iso_a"]
    last = NAMES[-1]
    table.loc[table["job_a"] == last, ["iso_a", "co_a", "co_b"]] = 0
    table.loc[table["job_b"] == last, ["iso_b", "co_a", "co_b"]] = 0
    table = pd.concat([table, table.assign(gpu="p100")])
    k80, p100 = read(tmp_path, table)
    assert (k80.gpu, p100.gpu) == ("k80", "p100")
    assert k80.left_out == {
        "repeated": 1,
        "of several GPUs": 1,
        "with a job that does not run alone": 17,
        "that did not run together": 1,
        "exactly as fast as alone": 1,
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
def test_no_rule_sees_what_it_is_asked(pairs: GavelPairs, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[pd.DataFrame] = []

    def spy(fit: pd.DataFrame, views: pd.DataFrame, beside: Mapping[str, float]) -> np.ndarray:
        seen = set(zip(fit["job"], fit["other"], strict=True))
        for view in views.itertuples():
            assert (view.job, view.other) not in seen
            assert (view.other, view.job) not in seen
            if protocol != "pair":
                assert not {view.job, view.other} & {*fit["job"], *fit["other"]}
            if protocol == "models":
                assert not {view.model, view.other_model} & {*fit["model"], *fit["other_model"]}
        asked.append(views)
        return np.zeros(len(views))

    monkeypatch.setitem(interference.RULES, "spy", spy)
    assert (left_out(pairs.views, "spy", protocol) == 1).all()
    together = pd.concat(asked)
    assert sorted(together.index) == list(range(len(pairs.views)))  # each once
    if protocol == "pair":
        assert max(map(len, asked)) == 2


@pytest.mark.parametrize("rule", ["step rates", "model", "self-pair"])
def test_rules_find_what_the_measurements_were_made_of(pairs: GavelPairs, rule: str) -> None:
    found = score(pairs.views, left_out(pairs.views, rule, "types"))
    trivial = score(pairs.views, left_out(pairs.views, "mean", "types"))
    assert found.mape < 0.3 * trivial.mape


def test_additive_knows_types_that_are_in_the_fit(tmp_path: Path) -> None:
    pairs = read(tmp_path, pairs_table({name: told for name, told in TYPES.items() if told[1] != 10.0}))[0]
    known, unknown = (score(pairs.views, left_out(pairs.views, "additive", protocol)) for protocol in ("pair", "types"))
    mean = score(pairs.views, left_out(pairs.views, "mean", "types"))
    assert known.mape < 0.3 * mean.mape
    assert unknown.mape == pytest.approx(mean.mape, rel=0.02)


def test_scores_by_hand() -> None:
    views = pd.DataFrame(
        {
            "job": ["a", "b", "a", "c", "a", "b", "c"],
            "other": ["b", "a", "c", "a", "a", "c", "b"],
            "slowdown": [1.25, 2.0, 2.5, 2.0, 7.0, 2.5, 2.5],
        }
    )
    found = score(views, np.array([1.25, 4.0, 2.0, 1.6, 1.0, 2.1, 2.1]))
    assert found.n == 6  # not a beside itself
    assert found.mape == pytest.approx(100 * (0 + 1 + 0.2 + 0.2 + 0.16 + 0.16) / 6)
    assert found.median_ape == pytest.approx(18)
    assert found.rmse == pytest.approx(np.sqrt((0 + 0.25**2 + 0.1**2 + 0.125**2 + 2 * (1 / 2.1 - 0.4) ** 2) / 6))
    # a and b: 0.8 + 0.5 gain, told 0.8 + 0.25; a and c: 0.4 + 0.5 lose, told 0.5 + 0.625; b and c: 0.8, told 0.95
    assert (found.gains, found.decided) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert (found.chosen, found.chosen_pairs) == (pytest.approx((1.3 + 0.9) / 2), 2)


def test_pairs_as_a_curve(pairs: GavelPairs) -> None:
    curve = measured_slowdown(pairs)
    fast, slow = NAMES[0], NAMES[2]
    assert curve([job(kind=fast)]) == [1.0]
    assert curve([job(kind=fast), job(kind=slow)]) == pytest.approx([2 * 4**0.2, 2 * 4**-0.2])
    assert curve([job(kind=fast), job(kind="other")]) == [float("inf")] * 2
    assert curve([job(kind=fast)] * 3) == [float("inf")] * 3
    some = pair_slowdown(pairs.views.head(1), np.array([3.0]))
    assert some([job(kind=pairs.views["job"][0])] * 2) == [3.0, 3.0]


def test_beside_itself(pairs: GavelPairs) -> None:
    assert beside_itself(pairs.views) == pytest.approx(dict.fromkeys(TYPES, 2.0))


def test_policies_on_measured_pairs(pairs: GavelPairs) -> None:
    runs = pair_streams(pairs, StreamShape(jobs=12), 2, 0)
    assert {one.kind for jobs in runs for one in jobs} <= set(pairs.types)
    policies = pair_policies(pairs, ["step rates"], "types", 0)
    rows = compare(runs, Cluster(2, 1.0), policies, {"measured": measured_slowdown(pairs)})
    assert list(rows["policy"].unique()) == ["slot", "random pairs", "step rates", "oracle"]
    slowed = rows.groupby("policy")["run_slowdown"].mean()
    assert slowed["slot"] == pytest.approx(1)
    assert slowed["random pairs"] > 1.3


@pytest.mark.parametrize(("rule", "protocol"), [("none", "types"), ("mean", "none")])
def test_rules_and_protocols_that_are_not(pairs: GavelPairs, rule: str, protocol: str) -> None:
    with pytest.raises(InputError, match="no rule"):
        left_out(pairs.views, rule, protocol)


def test_pairs_of_two_models_leave_nothing_to_fit_on(tmp_path: Path) -> None:
    views = read(tmp_path, pairs_table({name: told for name, told in TYPES.items() if told[0] != "C"}))[0].views
    with pytest.raises(InputError, match="no pair is left to fit on"):
        left_out(views, "mean", "models")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"co_a": 0.0}, "no pair of .* ran on k80"),
        ({"iso_a": -1.0}, "column 'iso_a' .* holds -1.0"),
        ({"sf_a": 0}, "column 'sf_a' .* holds 0"),
    ],
)
def test_tables_of_pairs_that_cannot_be(tmp_path: Path, change: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, pairs_table().assign(**change))


def test_the_public_table(shared_data: Path) -> None:
    found = {one.gpu: one for one in read_gavel_pairs(shared_data / "occupancy/gavel_pairs.csv.gz")}
    assert {name: (len(one.views), len(one.types)) for name, one in found.items()} == {"k80": (589, 25), "p100": (656, 26)}
    p100 = found["p100"]
    assert p100.left_out["exactly as fast as alone"] == p100.left_out["repeated"] == 0
    told, mean = (score(p100.views, left_out(p100.views, rule, "models")) for rule in ("self-pair", "time slicing"))
    assert told.mape < mean.mape
    assert told.decided > 0.7 > mean.decided
