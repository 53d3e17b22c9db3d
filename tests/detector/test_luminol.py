"""The vectorised Luminol scores against the package and against plain loops."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from epochcast.detector import InputError, luminol

KINDS = ("random", "constant", "spiky", "steps", "cycle")


def series(kind: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    if kind == "constant":
        return np.full(n, 0.1)
    if kind == "spiky":
        values = rng.normal(size=n)
        values[rng.integers(0, n, max(1, n // 200))] *= 1000
        return values
    if kind == "steps":
        return np.repeat(rng.random(n // 50 + 1), 50)[:n]
    if kind == "cycle":
        return (np.arange(n) % 137 < 110) + rng.normal(scale=0.05, size=n)
    return rng.random(n)


# Where one algorithm ends and where windows stop growing, for any series: two kinds will do.
LENGTHS = [(n, KINDS) for n in (2, 3, 10, 79, 600, 2000, 2001, 6000)] + [(n, KINDS[2:4]) for n in (1999, 15999, 16000, 20001)]


@pytest.mark.parametrize(("n", "kind"), [(n, kind) for n, kinds in LENGTHS for kind in kinds])
def test_equals_the_package(n: int, kind: str) -> None:
    values = series(kind, n)
    assert np.array_equal(luminol.scores(values), luminol.package_scores(values))


@settings(max_examples=40, deadline=None)
@given(arrays(np.float64, st.integers(2, 300), elements=st.floats(-1e6, 1e6, width=32)))
def test_equals_the_package_on_any_short_series(values: np.ndarray) -> None:
    assert np.array_equal(luminol.scores(values), luminol.package_scores(values))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1.0], "at least 2 samples"),
        ([], "at least 2 samples"),
        ({}, "needs numbers"),
        ([1.0, None, 2.0], "sample 1 is nan"),
        (["a", "b"], "needs numbers"),
        ([1.0, np.nan, 2.0], "sample 1 is nan"),
        ([1.0, np.inf], "sample 1 is inf"),
        (np.where(np.arange(2000) % 2, 1.7e308, -1.7e308), "scale them down"),
    ],
)
def test_refuses(values: list[float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        luminol.scores(values)


def test_says_which_extra_has_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "luminol.anomaly_detector", None)
    with pytest.raises(InputError, match=r"needs the package luminol; .*'\.\[paper\]'"):
        luminol.package_scores(series("cycle", 100))
