"""Binseg of ruptures, and what both methods of foreign packages say where these are missing."""

import sys

import numpy as np
import pytest

import lab.rivals.detection  # noqa: F401 - registers the methods
from epochcast.detector import InputError, detect
from lab.rivals.detection.binseg import most_likely

pytest.importorskip("ruptures", reason="install epochcast[dev]")

TIME = 1.7e9 + 0.1 * np.arange(600)
#: Epochs of 100 samples: 80 of training, 20 of validation; two change points each.
LEVEL = np.where(np.arange(600) % 100 < 80, 0.8, 0.3) + np.random.default_rng(1).normal(scale=0.02, size=600)


def test_finds_every_change() -> None:
    found = detect(TIME, {"dram_active": LEVEL}, method="binseg")
    changes = TIME[np.sort(np.concatenate([np.arange(80, 600, 100), np.arange(100, 600, 100)]))]
    assert [epoch.start for epoch in found.epochs] == pytest.approx(changes[:-1].tolist())
    assert found.epochs[-1].end == pytest.approx(changes[-1])
    assert found.method == "binseg"


def test_schwarz_takes_no_change_for_noise_and_one_for_a_step() -> None:
    noise = 100.0 - 0.5 * np.arange(5)  # each change point takes what it takes of noise
    assert most_likely(noise, 100) == 0
    assert most_likely(np.array([100.0, 20, 19.5, 19]), 100) == 1
    assert most_likely(np.array([100.0, 20, 0, 0]), 100) == 2


@pytest.mark.parametrize(("method", "package"), [("binseg", "ruptures"), ("jenks", "jenkspy")])
def test_says_which_extra_is_missing(method: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"needs the package {package}; .*'\.\[dev\]'"):
        detect(TIME, {"x": LEVEL}, method=method)
