"""No network is predicted by a fit that saw it or its like, and the figures are those of the paper's tables."""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.backends.convmeter.adapters import read_any
from epochcast.analyzer.backends.convmeter.evaluation import (
    PROTOCOLS,
    Answers,
    cell_names,
    cross_validate,
    figures,
    folds_of,
    measured_phases,
    train_and_test,
)
from epochcast.analyzer.backends.convmeter.metrics import COLUMNS
from epochcast.analyzer.backends.convmeter.points import KEYS, TIMES
from epochcast.analyzer.backends.convmeter.predictor import fit_predict
from epochcast.analyzer.errors import InputError


def points(networks: int = 24, devices: tuple[str, ...] = ("gpu",)) -> pd.DataFrame:
    """Each network at two batches, six in a family; every second has the weights and layers of the one before it."""
    rows = []
    for device in devices:
        for number in range(networks):
            for batch in (1.0, 8.0):
                metrics = dict.fromkeys(COLUMNS, 1.0) | {"flops": 1e9 + number, "weights": number // 2 * 1e6 + 1.0}
                keys = dict(
                    zip(KEYS, (device, "fp32", f"net{number}", "", f"f{number // 6}", 224.0, batch, 1.0, 1.0), strict=True)
                )
                seconds = dict.fromkeys(TIMES, np.nan) | {"inference_seconds": batch * (1 + number) / 1e3}
                rows.append({**keys, **seconds, **metrics})
    return pd.DataFrame(rows)


class Recorder:
    """A form that answers the mean and keeps what it was fitted on and asked."""

    def __init__(self) -> None:
        self.fits: list[tuple[pd.DataFrame, pd.DataFrame]] = []

    def __call__(self, train: pd.DataFrame, test: pd.DataFrame, phase: str) -> np.ndarray:
        self.fits.append((train, test))
        return np.full(len(test), train[f"{phase}_seconds"].mean())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_leaves_together_is_in_no_fit_that_predicts_it(protocol: str) -> None:
    table = points(devices=("gpu", "cpu"))
    form = Recorder()
    answers = cross_validate(table, "inference", form, protocol)
    together = {"family": ["family"], "architecture": ["weights", "layers"], "model": ["network"]}[protocol]
    tested = 0
    for train, test in form.fits:
        assert set(train["device"]) == set(test["device"]) and len(set(train["device"])) == 1
        for column in {"network", *together[:1]}:
            assert not set(train[column]) & set(test[column])
        tested += len(test)
    assert tested == len(table) == answers.figures.n
    assert len(set(answers.tests)) == {"family": 4, "architecture": 12, "model": 24}[protocol]


def test_architectures_join_by_name_and_by_weights_and_layers() -> None:
    table = points(6)
    # net0 at another size has weights of its own, and net5 those of net0 at that size: all three names leave together.
    table.loc[1, "weights"] = table.loc[table["network"] == "net5", "weights"] = 77.0
    folds = dict(zip(table["network"], folds_of(table, "architecture"), strict=True))
    assert folds["net0"] == folds["net1"] == folds["net5"] and folds["net2"] == folds["net3"] != folds["net4"]
    assert list(folds_of(table, "architecture")) == list(folds_of(table, "architecture"))


def test_a_block_leaves_with_its_network_and_joins_no_other() -> None:
    table = points(4)
    blocks = table.assign(block="layer1", weights=5.0, layers=5.0)
    both = pd.concat([table, blocks], ignore_index=True)
    for protocol in PROTOCOLS:
        folds = folds_of(both.assign(family=both["network"]), protocol)
        assert len(set(zip(both["network"], folds, strict=True))) == 4
    assert len(set(folds_of(both, "architecture"))) == 2, "blocks of equal size do not join their networks"


def test_all_of_one_family_cannot_leave_one_out() -> None:
    with pytest.raises(InputError, match=r"one family \(f0\)"):
        folds_of(points(6), "family")


def test_a_split_fits_on_the_first_table_alone() -> None:
    form = Recorder()
    train, test = points(4), points(6, devices=("other",))
    answers = train_and_test(train, test, "inference", form)
    assert len(form.fits) == 1 and len(form.fits[0][0]) == 8 and answers.figures.n == 12
    with pytest.raises(InputError, match="no points of third fp32"):
        train_and_test(points(4, ("gpu", "other")), points(4, ("third",)), "inference", form)


def test_a_fold_that_cannot_be_fitted_is_not_covered_and_says_why() -> None:
    def picky(train: pd.DataFrame, test: pd.DataFrame, phase: str) -> np.ndarray:
        if "f0" in set(test["family"]):
            raise InputError("too few points")
        return np.ones(len(test))

    answers = cross_validate(points(), "inference", picky, "family")
    assert answers.figures.coverage == 0.75 and answers.reason == "too few points"
    assert answers.by("family")["f0"].n == 0 and answers.by("family")["f1"].n == 12
    with pytest.raises(InputError, match="too few points"):
        cross_validate(points().assign(family=["f0", "g"] * 24), "inference", lambda *_: picky(_[0], points(1), ""), "family")


def test_only_what_was_measured_is_asked() -> None:
    table = points()
    table.loc[:9, "inference_seconds"] = np.nan
    table.loc[10, "inference_seconds"] = 0.0
    assert measured_phases(table) == ["inference"]
    assert cross_validate(table, "inference", Recorder(), "model").figures.n == 37
    with pytest.raises(InputError, match="none of the 48 points has a measured step time; measured: inference"):
        cross_validate(table, "step", Recorder(), "model")


def test_figures_are_those_computed_by_hand() -> None:
    measured, predicted = np.array([1.0, 2.0, 4.0, 10.0]), np.array([1.1, 1.8, 5.0, np.nan])
    one = figures(measured, predicted)
    assert one.mape == pytest.approx((10 + 10 + 25) / 3) and one.median_ape == pytest.approx(10)
    assert one.rmse == pytest.approx(np.sqrt((0.01 + 0.04 + 1) / 3)) and one.nrmse == pytest.approx(one.rmse / 3)
    assert (one.n, one.coverage) == (3, 0.75)
    assert np.isnan(figures(np.ones(2), np.ones(2)).nrmse), "no range"


def test_groups_and_the_spread_of_folds() -> None:
    table = points(2).assign(device=["a", "a", "b", "b"])
    measured = np.ones(4)
    answers = Answers(table, measured, np.array([1.1, 1.1, 1.3, 1.5]), np.array(["x", "x", "y", "y"]), figures)
    assert {name: one.mape for name, one in answers.by("batch").items()} == pytest.approx({"1": 20, "8": 30})
    assert list(answers.by(cell_names(table))) == ["a fp32", "b fp32"]
    assert answers.spread == pytest.approx(np.std([10, 40], ddof=1))
    assert answers.only(np.array([True, False, True, False])).figures.mape == pytest.approx(20)


def test_the_papers_form_has_the_error_that_the_research_measured(shared_data: Path) -> None:
    folder = shared_data / "convnets"
    table = folder / "benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv"
    known = read_any(table, folder / "timm_layer_features.csv.gz", folder / "timm_families.csv")
    answers = cross_validate(known, "inference", partial(fit_predict, form="paper"), "family")
    assert answers.figures.n == 846 and answers.figures.mape == pytest.approx(16.5, abs=0.1)
    assert answers.figures.r2 == pytest.approx(0.951, abs=0.001) and len(answers.by("family")) == 36
