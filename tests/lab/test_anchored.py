from collections.abc import Sequence

import numpy as np
import pytest

from epochcast.regressor import Catalog, InputError, Profile
from epochcast.regressor.answers import Answers
from epochcast.regressor.pairs import Pair, actual_ratio, make_pairs
from lab.rivals.latency.prior import prior_log_ratio
from lab.speed.regressor.calibration import with_anchors

NEW = "V100 SXM2 16GB"


def prior_answers(pairs: Sequence[Pair]) -> Answers:
    one, route = np.ones(len(pairs)), np.full(len(pairs), "specifications")
    return Answers(prior_log_ratio(pairs), one, one, route, route, np.full(len(pairs), ""), np.full((len(pairs), 4), np.nan))


def test_anchors_are_left_out_of_the_test_rows(pairs: list[Pair]) -> None:
    orders = {gpu: [f"0.{number}" for number in range(24)] for gpu in ("T4", "A10G", NEW)}
    rows, answers = with_anchors(pairs, prior_answers(pairs), 20, orders)
    assert {pairs[row].source.workload for row in rows.tolist()} == {"0.20", "0.21", "0.22", "0.23"}
    assert len(rows) == len(answers.log_ratio) == 4 * 3 * 2
    rows, untouched = with_anchors(pairs, prior_answers(pairs), 0, orders)
    assert set(untouched.routes.tolist()) == {"specifications"} and len(rows) == len(pairs)


@pytest.mark.parametrize(
    ("count", "says"), [(2, "calibration with 2 anchors is not possible"), (24, "leave no workload to test")]
)
def test_impossible_numbers_of_anchors_are_refused(pairs: list[Pair], count: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        with_anchors(pairs, prior_answers(pairs), count, {gpu: [f"0.{n}" for n in range(24)] for gpu in ("T4", "A10G", NEW)})


def test_on_the_public_data_few_anchors_bring_much(public_profiles: list[Profile], catalog: Catalog) -> None:
    """P4 with the prior alone as the base, so that nothing must be trained; research: 11.9 / 9.6 / 8.1."""
    pairs = make_pairs(public_profiles, catalog)
    orders = {
        gpu: np.random.default_rng(0).permutation(
            sorted({pair.source.workload or "" for pair in pairs if pair.target_gpu.name == gpu})
        )
        for gpu in sorted({pair.target_gpu.name for pair in pairs})
    }
    for count, most in ((5, 11.9), (10, 9.6), (20, 8.1)):
        rows, answers = with_anchors(pairs, prior_answers(pairs), count, orders)
        errors = answers.log_ratio - np.log(actual_ratio([pairs[row] for row in rows.tolist()]))
        assert 100 * np.abs(np.expm1(errors)).mean() < most
