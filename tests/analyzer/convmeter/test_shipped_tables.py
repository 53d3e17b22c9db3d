"""The tables that come with Epochcast: answers of a device that the user never measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from epochcast.analyzer.backends.convmeter import SHIPPED
from epochcast.analyzer.backends.convmeter.backend import ConvMeter
from epochcast.analyzer.backends.convmeter.predictor import RECIPES, ConvNetPredictor
from epochcast.analyzer.backends.convmeter.question import ConvMeterQuestion
from epochcast.analyzer.plugins import Settings
from epochcast.regressor import load_catalog

CELLS = {
    ("RTX 3090", "amp-fp16"): {"inference", "step"},
    ("RTX 3090", "amp-fp16-nhwc"): {"inference", "step"},
    ("A100 SXM4 40GB", "fp16"): {"inference", "step"},
    ("A100 SXM4 40GB", "fp32"): {"inference", "step"},
    ("RTX 2080 Ti", "fp16"): {"inference", "step"},
    ("RTX 2080 Ti", "fp32"): {"inference", "step"},
    ("TITAN Xp", "fp16"): {"inference", "step"},
    ("TITAN Xp", "fp32"): {"inference", "step"},
    ("i9-10940X", "fp32"): {"inference"},
    ("AMD EPYC (1 thread)", "fp32"): {"inference", "forward", "backward", "update", "step"},
}

EPYC = ("AMD EPYC (1 thread)", "fp32")


@pytest.fixture
def ask(answered: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: answered("predict-model", "convmeter", "--network", "resnet50", *arguments)


def test_what_is_shipped_is_small_and_says_where_it_comes_from() -> None:
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) < 1_500_000
    cells = ConvNetPredictor.load().cells
    for recipe in RECIPES:
        own = {(cell.device, cell.precision): {*cell.fits} for cell in cells if cell.recipe == recipe}
        assert own == CELLS | {EPYC: CELLS[EPYC] - ({"step"} if recipe == "default" else set())}  # there the sum of the others
    assert all(fit.source and fit.factor for cell in cells for fit in cell.fits.values())
    for cell in cells:  # the layout of the name is that of the table
        if cell.device == "RTX 3090":
            last = "channels last" if cell.precision.endswith("-nhwc") else "channels first"
            assert all(last in fit.source for fit in cell.fits.values())


@pytest.mark.parametrize("device", ["RTX 3090", "rtx3090", "NVIDIA GeForce RTX 3090"])
def test_a_gpu_by_any_of_its_names_answers_as_people_train(ask: Callable[..., Any], device: str) -> None:
    answer = ask("--device", device)
    assert (answer["device"], answer["precision"], answer["gpu"]) == ("RTX 3090", "amp-fp16-nhwc", "RTX 3090")
    (one,) = answer["predictions"]
    # timm's table has 274.5 ms at batch 1024, and 419.5 ms of training at 512.
    assert one["batch"] == 256
    assert one["phases"]["inference"]["value"] == pytest.approx(0.2745 / 4, rel=0.15)
    assert one["phases"]["step"]["value"] == pytest.approx(0.4195 / 2, rel=0.15)
    assert 20 * 2**30 < one["memory"]["capacity"] < 24 * 2**30
    assert answer["fitted"]["inference"]["ranges"]["batch"] == [8, 1024]
    assert [each.split(",")[0] for each in answer["assumed"]] == ["assumed: mixed precision (AMP)", "assumed: batch 256"]


def test_channels_first_is_there_when_it_is_asked_for(ask: Callable[..., Any]) -> None:
    asked = ("--device", "RTX 3090", "--batch", "1024", "--precision")
    first, last = (ask(*asked, name) for name in ("AMP-FP16", "amp-fp16-nhwc"))
    assert first["precision"] == "amp-fp16" and first["assumed"] == last["assumed"] == []
    seconds = [one["predictions"][0]["phases"]["inference"]["value"] for one in (last, first)]
    assert seconds[0] < seconds[1]  # tensor cores want channels last


def test_every_gpu_of_the_catalogue_answers_also_on_two_nodes() -> None:
    backend = ConvMeter(Settings())
    for name in load_catalog():
        answer = backend.answer(ConvMeterQuestion(network="resnet50", device=name, devices=[16]))
        (one,) = answer.predictions
        low, high = one.phases["step"].low, one.phases["step"].high
        assert low and high and low < one.phases["step"].value < high and one.nodes == 2, name
