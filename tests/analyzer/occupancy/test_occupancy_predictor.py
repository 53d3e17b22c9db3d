"""A fitted predictor: its intervals, what it does not know, and its files, sound and damaged."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_trainings import activation, convolution, ends, trainings

from epochcast.analyzer.backends.occupancy.answer import LABELS
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.analyzer.backends.occupancy.networks import NetworkConfiguration, Sample
from epochcast.analyzer.backends.occupancy.predictor import RATIOS, OccupancyPredictor, model_training
from epochcast.regressor import load_catalog
from lab.occupancy.fitting import fit_predictor
from lab.occupancy.from_layers import graph_of_layers
from lab.occupancy.models import save_predictor
from lab.occupancy.training_jobs import GPU, TrainingJobs, read_training_jobs

CATALOG = load_catalog()


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> TrainingJobs:
    return read_training_jobs([trainings(tmp_path_factory.mktemp("trainings") / "jobs.csv", 120)], CATALOG)


@pytest.fixture(scope="module")
def predictor(jobs: TrainingJobs) -> OccupancyPredictor:
    return fit_predictor(jobs)


def network(width: int, batch: int) -> ComputationGraph:
    layers = [convolution(3, width, 16), activation(width, 16), convolution(width, width, 16), *ends(width, 10)]
    return graph_of_layers("new", layers, "uniform", 3, 16, batch)


def sample(width: int = 64, batch: int = 16, gpu: str = GPU, precision: str = "fp32") -> Sample:
    return Sample(NetworkConfiguration("new", batch, precision=precision), network(width, batch), CATALOG.resolve(gpu))


def test_trainings_like_the_fitted_ones_are_answered_within_their_intervals(predictor: OccupancyPredictor) -> None:
    samples = [sample(width, batch) for width in (30, 64, 120) for batch in (8, 24, 48)]
    for one in samples:
        answer = predictor.predict(one, CATALOG)
        width, batch = one.graph.column("output_features")[0], one.graph.batch
        expected = {"sm_occupancy": 0.002 * (width * batch) ** 0.5, "peak_memory": (1500 + width * batch / 10) * 2**20}
        for label, value in expected.items():
            interval = getattr(answer, label)
            assert interval.low < interval.value < interval.high
            assert interval.value == pytest.approx(value, rel=0.25), label
        assert answer.sm_active.value > 2 * answer.sm_occupancy.value and answer.out_of_memory is not None
    assert not predictor.notes(samples[:1], CATALOG)


def with_attention(one: Sample) -> Sample:
    return replace(one, graph=replace(one.graph, words=("attention", *one.graph.words[1:])))


@pytest.mark.parametrize(
    ("asked", "basis", "note"),
    [
        (sample(), "measured", None),
        (sample(gpu="A100 SXM4 80GB"), "measured", "the same chip as A100 SXM4 80GB"),
        (sample(gpu="T4"), "modelled", "T4 was not measured, only A100 SXM4 40GB"),
        (sample(precision="fp16"), "modelled", "measured in fp32, not in fp16"),
        (with_attention(sample()), "modelled", "no measured training has attention"),
    ],
)
def test_what_no_training_shows_is_modelled_with_a_wide_range(
    predictor: OccupancyPredictor, asked: Sample, basis: str, note: str | None
) -> None:
    answer = predictor.predict(asked, CATALOG)
    assert answer.basis == basis
    notes = predictor.notes([asked], CATALOG)
    assert note in notes[0] if note else not notes
    assert (answer.out_of_memory is None) == (basis == "modelled")
    if basis == "modelled":
        for label in LABELS:
            ours = getattr(answer, label)
            assert ours.low < ours.value < ours.high and (ours.high >= 1 or ours.high > 2.5 * ours.low), label


@pytest.mark.parametrize(("width", "fits"), [(8, True), (2**10, None), (2**12, False)])
def test_whether_it_fits_is_said_where_the_whole_range_says_so(width: int, fits: bool | None) -> None:
    assert model_training(sample(width, 2**11, gpu="T4"))["fits"] is fits


def test_what_is_saved_answers_the_same(predictor: OccupancyPredictor, jobs: TrainingJobs, tmp_path: Path) -> None:
    save_predictor(predictor, tmp_path / "model")
    other = OccupancyPredictor.load(tmp_path / "model")
    assert (other.fitted, other.range) == (predictor.fitted, predictor.range)
    asked = [*jobs.samples[:9], sample(), sample(500)]
    assert [other.predict(one, CATALOG) for one in asked] == [predictor.predict(one, CATALOG) for one in asked]
    assert other.notes(asked, CATALOG) == predictor.notes(asked, CATALOG)
    assert predictor.fitted.rows == {"sm_occupancy": 118, "sm_active": 119, "peak_memory": 119}
    assert predictor.fitted.gpus == [GPU]


def test_the_shipped_model_was_fitted_on_all_trainings_of_the_public_tables(shared_data: Path) -> None:
    tables = [shared_data / "occupancy" / f"measured_{kind}.csv.gz" for kind in ("cnn", "mlp")]
    jobs = read_training_jobs(tables, CATALOG)
    shipped = OccupancyPredictor.load()
    assert shipped.fitted.rows == {label: len(jobs.labelled(label).samples) for label in (*RATIOS, "peak_memory")}
    rows = np.random.default_rng(0).random(len(jobs.samples)) < 0.05
    known = jobs.only(rows).labelled("sm_occupancy")
    answers = [shipped.predict(one, CATALOG).sm_occupancy for one in known.samples]
    assert (
        np.median([abs(answer.value / true - 1) for answer, true in zip(answers, known.points["sm_occupancy"], strict=True)])
        < 0.05
    )
