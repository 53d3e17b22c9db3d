"""benchmarks/occupancy/measured.py: which rows are kept from a fit, and a table's cells by hand."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

from benchmarks.occupancy import measured

from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.graph.from_layers import ListedLayer, graph_of_layers
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.analyzer.backends.occupancy.training_jobs import GPU, TrainingJobs
from epochcast.regressor import load_catalog

ROWS = 320


@pytest.fixture(scope="module")
def jobs() -> TrainingJobs:
    """Two families of depths 1 to 4, of which `uniform` has twice the occupancy; each network twice."""
    depth = np.arange(ROWS) // 2 % 4 + 1
    graphs = [graph_of_layers(f"n{d}", [ListedLayer("Linear", 8, 72)] * d, "uniform", 8, 1, 32) for d in range(1, 5)]
    samples = tuple(Sample(Configuration(f"n{d}", 32), graphs[d - 1], load_catalog().resolve(GPU)) for d in depth)
    architecture = np.where(np.arange(ROWS) < ROWS // 4, "uniform", "pyramid")
    points = pd.DataFrame(
        {
            "layers": [f"network {row // 2}" for row in range(ROWS)],
            "architecture": architecture,
            "depth": depth,
            "width": 9 - depth,
            "sm_occupancy": np.where(architecture == "uniform", 0.4, 0.2),
        }
    )
    return TrainingJobs(points, samples, {})


def test_what_leaves_together(jobs: TrainingJobs) -> None:
    points = jobs.points
    folds = measured.PROTOCOLS["layers"](points)
    assert len(folds) == measured.FOLDS
    for fold in folds:
        (tested,) = fold.tests.values()
        assert set(points["layers"][tested]).isdisjoint(points["layers"][fold.train])
        assert (tested ^ fold.train).all()
    for size in ("depth", "width"):
        (split,) = measured.PROTOCOLS[size](points)
        (tested,) = split.tests.values()
        assert points[size][split.train].max() < points[size][tested].min()
        assert tested.mean() == 1 - measured.BEYOND


def test_networks_learn_from_fewer_rows_and_are_tested_on_all(jobs: TrainingJobs) -> None:
    trees, networks = (measured.splits_for(name, jobs.points, "layers") for name in ("boosting", "dnn-occu"))
    assert (len(trees), len(networks)) == (measured.FOLDS, measured.NETWORK_FOLDS)
    for whole, part in zip(trees, networks, strict=False):
        assert part.train.sum() == measured.NETWORK_ROWS < whole.train.sum()
        assert (whole.train | ~part.train).all()
        assert {name: rows.tolist() for name, rows in part.tests.items()} == {
            name: rows.tolist() for name, rows in whole.tests.items()
        }


def test_cells_by_hand(jobs: TrainingJobs) -> None:
    """The mean of the other family is half of `uniform` and twice `pyramid`, of which there are three times as many."""
    name, errors, worst = measured.model_row(jobs, "mean", protocols=["architecture"])
    assert (name, errors, worst) == ("`mean`", "87.5 / 100.0", "100.0 pyramid")
