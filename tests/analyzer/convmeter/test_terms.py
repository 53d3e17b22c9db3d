"""The terms of each form for one network, by hand: every figure of it is another number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.backends.convmeter import terms
from epochcast.analyzer.backends.convmeter.metrics import COLUMNS, COMPUTING_KINDS, KINDS

ALL = {name: float(number) for number, name in enumerate(COLUMNS, 100)}
POINT = pd.DataFrame([ALL | {"batch": 3.0, "devices": 8.0, "nodes": 2.0}])
W, P = ALL["weights"], ALL["parameter_tensors"]


@pytest.mark.parametrize(
    ("phase", "several", "expected"),
    [
        ("inference", False, ["flops", "conv_inputs", "conv_outputs", 1.0]),
        ("backward", True, ["flops", "conv_inputs", "conv_outputs", 1.0]),
        ("update", False, ["layers"]),
        ("update", True, ["layers", "weights", 8.0]),
        ("step", False, ["flops", "conv_inputs", "conv_outputs", 1.0, "layers", "weights"]),
        ("step", True, ["flops", "conv_inputs", "conv_outputs", 1.0, "layers", "weights", 8.0]),  # the seven of section 3.3
    ],
)
def test_the_papers_terms(phase: str, several: bool, expected: list[str | float]) -> None:
    growing = {"flops", "conv_inputs", "conv_outputs"}
    numbers = [one if isinstance(one, float) else ALL[one] * (3 if one in growing else 1) for one in expected]
    assert terms.paper_terms(POINT, phase, several).tolist() == [numbers]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (terms.compute_terms, [3 * ALL[f"{kind}_flops"] for kind in COMPUTING_KINDS]),
        (terms.traffic_terms, [3 * ALL[f"{kind}_traffic"] for kind in KINDS]),
        (terms.weight_terms, [W - ALL["linear_weights"], ALL["linear_weights"]]),
        (terms.other_terms, [3 * ALL["narrow_flops"], 3 * ALL["conv_outputs"], ALL["operators"], 3.0, 1.0]),
        (terms.network_terms, [W, ALL["operators"], 1.0]),
        (terms.update_terms, [W, P, 1.0, W * W / P]),
        (terms.exchange_terms, [W * 7 / 8, W * 3, P * 3, W / 2, W, P]),  # log2 of 8 and of 2
    ],
)
def test_the_terms_of_the_other_forms(made: Callable[[terms.Columns], terms.Array], expected: list[float]) -> None:
    np.testing.assert_allclose(made(POINT), [expected])
    np.testing.assert_allclose(made({name: POINT[name].to_numpy() for name in POINT}), [expected])


def test_one_device_exchanges_nothing_and_a_network_may_have_no_weights() -> None:
    assert not terms.exchange_terms(POINT.assign(devices=1.0, nodes=1.0)).any()
    assert terms.update_terms(POINT.assign(weights=0.0, parameter_tensors=0.0)).tolist() == [[0, 0, 1, 0]]
