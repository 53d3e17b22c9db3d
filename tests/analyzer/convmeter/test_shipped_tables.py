"""The tables that come with Epochcast: answers of a device that the user never measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from epochcast.analyzer.backends.convmeter import SHIPPED
from epochcast.analyzer.backends.convmeter.predictor import ConvNetPredictor

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


@pytest.fixture
def ask(answered: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: answered("predict-model", "convmeter", "--network", "resnet50", *arguments)


def test_what_is_shipped_is_small_and_says_where_it_comes_from() -> None:
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) < 1_500_000
    cells = ConvNetPredictor.load().cells
    assert {(cell.device, cell.precision): set(cell.fits) for cell in cells} == CELLS
    fits = [fit for cell in cells for fit in cell.fits.values()]
    assert all(fit.source and fit.form == "default" and np.isfinite(fit.factor) for fit in fits)
    for cell in cells:  # the layout of the name is that of the table
        if cell.device == "RTX 3090":
            last = "channels last" if cell.precision.endswith("-nhwc") else "channels first"
            assert all(last in fit.source for fit in cell.fits.values())


@pytest.mark.parametrize("device", ["RTX 3090", "rtx3090", "NVIDIA GeForce RTX 3090"])
def test_a_gpu_by_any_of_its_names_answers_channels_first(ask: Callable[..., Any], device: str) -> None:
    answer = ask("--device", device, "--batch", "256")
    assert (answer["device"], answer["precision"], answer["gpu"]) == ("RTX 3090", "amp-fp16", "RTX 3090")
    (one,) = answer["predictions"]
    # timm's table has 318.1 ms at batch 1024, and 619.0 ms of training at 512.
    assert one["phases"]["inference"]["seconds"] == pytest.approx(0.3181 / 4, rel=0.15)
    assert one["phases"]["step"]["seconds"] == pytest.approx(0.619 / 2, rel=0.15)
    assert 20 * 2**30 < one["memory"]["capacity"] < 24 * 2**30
    assert answer["fitted"]["inference"]["batches"] == [32, 1024]
    assert any("amp-fp16-nhwc" in note for note in answer["notes"])


def test_channels_last_is_there_when_it_is_asked_for(ask: Callable[..., Any]) -> None:
    last = ask("--device", "RTX 3090", "--precision", "AMP-FP16-NHWC", "--batch", "1024")
    first = ask("--device", "RTX 3090", "--batch", "1024")
    assert last["precision"] == "amp-fp16-nhwc" and not any("channels" in note for note in last["notes"])
    seconds = [one["predictions"][0]["phases"]["inference"]["seconds"] for one in (last, first)]
    assert seconds[0] < seconds[1]  # tensor cores want channels last


def test_a_batch_is_outside_of_the_phase_that_did_not_have_it(ask: Callable[..., Any]) -> None:
    notes = ask("--device", "RTX 3090", "--batch", "1")["notes"]
    assert "inference: batch 1 is outside the measured range of 32 to 1024" in notes


def test_a_device_that_no_table_has_is_one_sentence_with_the_remedy(refusal: Callable[..., str]) -> None:
    said = refusal("predict-model", "convmeter", "--network", "resnet50", "--device", "H100 SXM5")
    for part in ("not fitted for H100 SXM5", "RTX 3090 at amp-fp16-nhwc", "epochcast fit convmeter"):
        assert part in said
