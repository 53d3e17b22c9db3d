"""Packing of measured trainings: what is read, what a fit may see, what policies go by, and the sentence on the order."""

import numpy as np
import pandas as pd
import pytest
from benchmarks.occupancy.measured_packing import PREDICTED, UNKNOWING, difference, kinds, mixes, packed, predictions, results
from made_jobs import job

from epochcast.analyzer.backends.occupancy.training_jobs import GPU, read_training_jobs
from epochcast.regressor import load_catalog

MLP = "input:8_output:4_depth:1_arch:pyramid_batch:{batch}_act:relu_dropout:0.1_dropout:True_batchnorm:False"
CNN = (
    "input_channels:3_num_classes:4_depth:1_arch:uniform_base_filters:2_batch:{batch}_input_size:8_act:relu"
    "_dropout:0.1_dropout:True_batchnorm:False"
)
LINEAR = "[('linear', {width}, {parameters}), ('linear', 4, {last})]"
CONVOLUTION = "[('conv2d', 128, 56), ('adaptive_avg_pool2d', 2, 0), ('linear', 4, 12)]"


@pytest.fixture
def jobs(tmp_path):
    """Eight MLPs of four lists of layers, and two CNNs."""

    def layers(width):
        return LINEAR.format(width=width, parameters=9 * width, last=4 * width + 4)

    measured = [
        {"name": MLP.format(batch=2 + row), "layers": layers(4 + row % 4), "gpu_utilization_percent": 30 + row}
        for row in range(8)
    ]
    measured += [
        {"name": CNN.format(batch=2 + row), "layers": CONVOLUTION, "gpu_utilization_percent": (90, -1)[row]} for row in range(2)
    ]
    table = pd.DataFrame(measured).assign(depth=1, batch=2, peak_memory_mib=1024.0, sm_active=0.5)
    table["sm_occupancy"] = np.linspace(0.1, 0.4, len(table))
    table.to_csv(tmp_path / "measured.csv", index=False)
    return read_training_jobs([tmp_path / "measured.csv"], load_catalog().resolve(GPU))


def test_measured_kinds(jobs):
    """NVML's per cent are ratios, none where it was not read; memory is in bytes; keys are rows."""
    assert jobs.points["nvml_utilisation"].iloc[:2].tolist() == pytest.approx([0.30, 0.31])
    assert np.isnan(jobs.points["nvml_utilisation"].iloc[9])
    (kind,) = kinds(jobs, np.array([8]))
    assert (kind.key, kind.nvml_utilisation, kind.memory) == ("8", 0.9, 2**30)
    assert kind.occupancy == jobs.points["sm_occupancy"].iloc[8]


def test_half_of_each(jobs):
    rows = mixes(jobs)
    assert rows["CNN"].tolist() == [8, 9]
    assert rows["MLP"].tolist() == list(range(8))
    assert sorted(rows["both"] >= 8) == [False, False, True, True]


class Remembers:
    """0.5 for a network with layers that it was fitted on, else more than an occupancy can be."""

    def __init__(self, layers):
        self.layers = layers

    def fit(self, samples, values):
        assert len(samples) == len(values)
        self.known = {self.layers[id(sample)] for sample in samples}
        return self

    def predict(self, samples):
        return np.array([0.5 if self.layers[id(sample)] in self.known else 2.0 for sample in samples])


def test_no_fit_saw_equal_layers(jobs, monkeypatch):
    monkeypatch.setattr("benchmarks.occupancy.measured_packing.FOLDS", 3)
    layers = dict(zip(map(id, jobs.samples), jobs.points["layers"], strict=True))
    assert predictions(jobs, lambda: Remembers(layers)).tolist() == [1.0] * 10  # type: ignore[arg-type]


def test_predictions_reach_the_policy_and_nothing_else():
    """Told that all fill a GPU, occu-packing is slot-packing; told the truth, it is itself."""
    streams = [[job(str(number), kind=str(number), occupancy=0.1, nvml_utilisation=0.6) for number in range(8)]]
    rows = packed(streams, {PREDICTED: np.full(8, 0.1), "full": np.ones(8)}, 40e9)
    makespan = rows[rows["slowdown"] == "fig7"].set_index("policy")["makespan"]
    assert makespan[PREDICTED] == makespan["occu"] < makespan["slot"] == makespan["full"] == makespan["nvml-util"] == 20


def rows_of(**makespans):
    """Three runs of each policy; the shortest makespan has the highest utilisation."""
    named = {"slot": 10.0, "nvml-util": 9.0, "occu": 8.0, PREDICTED: 8.0, UNKNOWING: 8.5} | makespans
    others = dict.fromkeys(("occupancy", "jct", "jct_slowdown", "run_slowdown", "failures"), 1.0)
    return pd.DataFrame(
        [
            {"slowdown": "none", "policy": policy, "run": run, "makespan": makespan + noise * 0.01, **others}
            | {"nvml_utilisation": 1 / makespan}
            for policy, makespan in named.items()
            for run, noise in enumerate((0, 1, 2) if policy == "occu" else (0, 2, 1))
        ]
    )


def test_difference_is_a_share_of_slot_packing():
    assert difference(rows_of(), "occu", "nvml-util").mean == pytest.approx(-0.1, abs=1e-3)


@pytest.mark.parametrize(
    ("changed", "sentences"),
    [
        ({}, ("intervals in 1 of 1 rows;", "predicted occupancies in 1 of 1 rows.", "of the three in 1 of 1 rows.")),
        (
            {"occu": 9.5},
            ("intervals in 0 of 1 rows (not: a);", "predicted occupancies in 1 of", "three in 0 of 1 rows (not: a)."),
        ),
        (
            {PREDICTED: 9.001},
            ("intervals in 1 of 1 rows;", "predicted occupancies in 0 of 1 rows (not: a).", "in 1 of 1 rows."),
        ),
        ({"nvml-util": 10.001}, ("intervals in 0 of", "predicted occupancies in 0 of", "of the three in 1 of 1 rows.")),
    ],
)
def test_sentence_on_the_papers_order(changed, sentences):
    """Order holds only beyond the interval, of measured and predicted occupancy apart."""
    *_, last = results({"a": rows_of(**changed)})
    for sentence in sentences:
        assert sentence in last
