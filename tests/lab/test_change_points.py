"""PELT, Dynp and Binseg of ruptures."""

import sys

import numpy as np
import pytest

from epochcast.detector import InputError, detect
from lab.rivals.detection.change_points import most_likely

pytest.importorskip("ruptures", reason="install epochcast[dev]")

METHODS = ("pelt", "dynp", "binseg")
TIME = 1.7e9 + 0.1 * np.arange(600)
#: Epochs of 100 samples: 80 of training, 20 of validation; two change points each.
LEVEL = np.where(np.arange(600) % 100 < 80, 0.8, 0.3) + np.random.default_rng(1).normal(scale=0.02, size=600)


@pytest.mark.parametrize("cost", ["l2", "rbf"])
@pytest.mark.parametrize("method", METHODS)
def test_finds_every_change(method: str, cost: str) -> None:
    found = detect(TIME, {"dram_active": LEVEL}, method=method, cost=cost)
    changes = TIME[np.sort(np.concatenate([np.arange(80, 600, 100), np.arange(100, 600, 100)]))]
    assert [epoch.start for epoch in found.epochs] == pytest.approx(changes[:-1].tolist())
    assert found.epochs[-1].end == pytest.approx(changes[-1])
    assert found.method == method


@pytest.mark.parametrize("cost", ["l2", "rbf"])
def test_the_fast_search_is_the_one_it_is_named_after(cost: str) -> None:
    import ruptures

    values = np.random.default_rng(5).normal(size=150).cumsum() / 10
    standardised = (values - values.mean()) / values.std()
    pelt = ruptures.Pelt(cost, min_size=2, jump=1).fit(standardised).predict(pen=2.0)[:-1]
    found = detect(TIME[:150], {"x": values}, method="pelt", cost=cost, penalty=2.0)
    assert [epoch.start for epoch in found.epochs] == pytest.approx(TIME[pelt[:-1]].tolist())
    dynp = ruptures.Dynp(cost, min_size=2, jump=1).fit(standardised).predict(n_bkps=6)[:-1]
    found = detect(TIME[:150], {"x": values}, method="dynp", cost=cost, number=6)
    assert [epoch.start for epoch in found.epochs] == pytest.approx(TIME[dynp[:-1]].tolist())


def test_schwarz_takes_no_change_for_noise_and_one_for_a_step() -> None:
    noise = 100.0 - 0.5 * np.arange(5)  # each change point takes what it takes of noise
    assert most_likely(noise, 100) == 0
    assert most_likely(np.array([100.0, 20, 19.5, 19]), 100) == 1
    assert most_likely(np.array([100.0, 20, 0, 0]), 100) == 2


@pytest.mark.parametrize(("method", "package"), [*((method, "ruptures") for method in METHODS), ("jenks", "jenkspy")])
def test_says_which_extra_is_missing(method: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"needs the package {package}; .*'\.\[dev\]'"):
        detect(TIME, {"x": LEVEL}, method=method)
