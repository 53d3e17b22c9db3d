"""What models learn in place of occupancies and seconds, and back."""

import numpy as np
import pytest

from epochcast.analyzer.backends.occupancy.models.output import Output


def test_seconds_are_learnt_as_standardised_logarithms() -> None:
    seconds = np.array([1e-4, 3e-3, 0.2])
    output = Output.of("seconds", seconds, 3)
    learnt = output.learnt(seconds)
    assert learnt == pytest.approx((np.log(seconds) - np.log(seconds).mean()) / np.log(seconds).std())
    assert output.values(output.answer(learnt)) == pytest.approx(seconds)
    assert Output.restored(output.state()) == output


def test_ratios_are_learnt_as_they_are_and_a_network_that_says_nothing_answers_their_mean() -> None:
    torch = pytest.importorskip("torch")
    ratios = np.array([0.1, 0.2, 0.6])
    output = Output.of("ratio", ratios, 3)
    assert output.learnt(ratios) is ratios
    assert output.answer(torch.zeros(2)).numpy() == pytest.approx(0.3)
    assert output.values(np.array([-0.1, 0.4, 1.1])).tolist() == [0.0, 0.4, 1.0]


def test_seconds_all_alike_have_no_spread_to_divide_by() -> None:
    seconds = np.full(3, 2.0)
    output = Output.of("seconds", seconds, 3)
    assert output.values(output.learnt(seconds)) == pytest.approx(seconds)
