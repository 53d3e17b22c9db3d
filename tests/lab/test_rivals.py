"""Rivals: that each is found by its name beside ours, and gives a sane figure."""

import numpy as np
import pytest

from epochcast.analyzer.backends.distributed.communication.cluster import cluster_for
from epochcast.analyzer.backends.distributed.fitted_model import Coefficients
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.regressor import load_catalog
from lab.rivals.convmeter import FORMS
from lab.rivals.distributed import RECIPES

from ..analyzer.convmeter.made_points import made_points
from .conftest import TINY

CATALOG = load_catalog()


@pytest.mark.parametrize("form", FORMS)
def test_a_form_learns_the_papers_equation(form: str) -> None:
    points = made_points().assign(device="rtx3090")
    work = 2e-14 * points["flops"] + 3e-12 * points["conv_inputs"] + 5e-12 * points["conv_outputs"]
    seconds = (points["batch"] * work + 1e-3).to_numpy()
    predicted = FORMS[form]("forward").fit(points, seconds).predict(points)
    assert np.median(np.abs(np.log(predicted / seconds))) < (3 if form == "paleo" else 0.5)


def test_recipes_of_one_job() -> None:
    pytest.importorskip("torch")
    from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs

    gpu = CATALOG.resolve("A100 SXM4 80GB")
    job = TrainingConfiguration(tensor=2, data=2, global_batch=4, sequence_length=128, precision="fp16")
    graphs, cluster = ModelGraphs.of(TINY), cluster_for(gpu, 4)
    seconds = {name: recipe(graphs, job, cluster, Coefficients()).seconds for name, recipe in RECIPES.items()}
    assert list(RECIPES) == ["default", "paper", "roofline", "neusight-style", "vtrain-style"]
    assert 0 < seconds["roofline"] < seconds["default"]
    assert 0 < seconds["neusight-style"] <= seconds["vtrain-style"]


def test_paleo_counts_operations_as_published() -> None:
    torch = pytest.importorskip("torch")
    from lab.campaign.networks import build
    from lab.rivals.paleo import predict_step_seconds
    from lab.speed.regressor.paleo_layers import layers_of

    with torch.device("meta"):
        layers = layers_of(build("ResNet18", 224, classes=1000), 224)
    assert sum(layer.flops for layer in layers if layer.weights) / 2 == pytest.approx(1.81e9, rel=0.02)
    assert 0 < predict_step_seconds(layers, CATALOG.resolve("V100 SXM2 16GB"), 32, 4, 0.62) < 1
