"""What is fitted on and what is tested: nothing leaks, and the paper's networks are ours."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochcast.analyzer.backends.occupancy.evaluation import (
    CLIP_SEEN,
    CLIP_UNSEEN,
    PROTOCOLS,
    SEEN,
    TRANSFORMER_SEEN,
    TRANSFORMERS_UNSEEN,
    UNSEEN,
)
from epochcast.analyzer.backends.occupancy.networks import NETWORKS
from epochcast.analyzer.errors import InputError

PAPER = [*SEEN.values(), *UNSEEN.values(), *TRANSFORMERS_UNSEEN.values(), *CLIP_SEEN.values(), *CLIP_UNSEEN.values()]


def _points(networks: list[str], rows: int = 1) -> pd.DataFrame:
    return pd.DataFrame({"network": np.repeat(networks, rows)})


def test_the_papers_networks_are_networks_of_ours() -> None:
    assert set(PAPER) | {TRANSFORMER_SEEN} <= set(NETWORKS)
    assert not set(SEEN.values()) & set(UNSEEN.values())


@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=3, max_size=40).filter(lambda names: len(set(names)) > 2),
    st.none() | st.integers(2, 12),
    st.integers(0, 3),
)
def test_no_network_is_fitted_on_where_it_is_tested(networks: list[str], folds: int | None, seed: int) -> None:
    points = _points(networks)
    tested = np.zeros(len(points), dtype=int)
    splits = PROTOCOLS["model"](points, folds, seed)
    for split in splits:
        (rows,) = split.tests.values()
        tested += rows
        assert not set(points["network"][rows]) & set(points["network"][split.train])
        assert (rows | split.train).all() and split.train.any() and rows.any()
    assert (tested == 1).all(), "each row once"
    assert len(splits) == min(len(set(networks)), folds or 99)


@pytest.mark.parametrize("protocol", ["paper", "transformers", "clip"])
def test_one_fit_of_the_paper(protocol: str) -> None:
    points = _points([*dict.fromkeys([*PAPER, "bert", "gru"])], rows=10)
    (split,) = PROTOCOLS[protocol](points, None, 0)
    for rows in split.tests.values():
        assert not (rows & split.train).any()
    fitted, networks = set(points["network"][split.train]), points["network"]
    assert not {"bert", "gru"} & fitted
    if protocol == "transformers":
        assert fitted == {TRANSFORMER_SEEN} and set(split.tests) == set(TRANSFORMERS_UNSEEN.values())
        assert split.train.sum() == 10
        return
    seen, unseen = (set(networks[split.tests[name]]) for name in ("seen", "unseen"))
    if protocol == "paper":
        assert fitted == seen == set(SEEN.values()) and unseen == set(UNSEEN.values())
        assert split.train.sum() == 0.8 * 10 * len(SEEN) and split.tests["seen"].sum() == 0.2 * 10 * len(SEEN)
    else:
        assert fitted == {*SEEN.values(), *CLIP_SEEN.values()}
        assert seen == set(CLIP_SEEN.values()) and unseen == set(CLIP_UNSEEN.values())


def test_another_seed_leaves_other_rows_out() -> None:
    points = _points(PAPER, rows=20)
    first, again, other = (PROTOCOLS["paper"](points, None, seed)[0].train for seed in (0, 0, 1))
    assert (first == again).all() and (first != other).any()


@pytest.mark.parametrize(
    ("protocol", "networks", "said"),
    [
        ("model", ["a", "b"], "3 or more"),
        ("paper", ["a", "b", "c"], "seen in the protocol of section V"),
        ("paper", list(SEEN.values()), "unseen in the protocol of section V"),
        ("transformers", ["gpt2"], "fitted on in the protocol of Table V"),
        ("transformers", [TRANSFORMER_SEEN], "tested in the protocol of Table V"),
        ("clip", [*SEEN.values(), "clip_vit_b32"], "seen in the protocol of Table IV"),
        ("clip", [*SEEN.values(), *CLIP_SEEN.values()], "unseen in the protocol of Table IV"),
    ],
)
def test_too_little_for_a_protocol_is_one_sentence(protocol: str, networks: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        PROTOCOLS[protocol](_points(networks, rows=5), None, 0)
