"""Models by their names: baselines that see a graph as one row, and what all learn in place of occupancies and seconds."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from epochcast.analyzer.backends.occupancy import models
from epochcast.analyzer.backends.occupancy.features import Standardiser
from epochcast.analyzer.backends.occupancy.graph.vocabulary import VOCABULARY
from epochcast.analyzer.backends.occupancy.models import make
from epochcast.analyzer.backends.occupancy.models.output import Output
from epochcast.analyzer.backends.occupancy.models.pooled_features import POOLED_NAMES, pooled_features
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.analyzer.errors import InputError

MadeSample = Callable[..., Sample]
NAMES = ("mean", "nearest", "boosting")


@pytest.fixture(scope="module")
def samples(made_sample: MadeSample) -> list[Sample]:
    return [made_sample(5 + 3 * seed, seed, batch) for seed in range(12) for batch in (1, 4, 16, 64)]


@pytest.fixture(scope="module")
def occupancies(samples: list[Sample]) -> np.ndarray:
    """More with the batch and with the number of operators."""
    return np.array([0.05 + 0.1 * np.log2(len(one.graph)) + 0.05 * np.log2(one.configuration.batch) for one in samples])


def test_pooled_features_by_hand(made_sample: MadeSample) -> None:
    sample = made_sample(20)
    told = dict(zip(POOLED_NAMES, pooled_features([sample])[0].tolist(), strict=True))
    graph = sample.graph
    width = np.where(graph.floating, 4, 8)
    moved = sum(graph.column(name) * width for name in ("read", "written", "weights"))
    for word in VOCABULARY:
        here = np.array([one == word for one in graph.words])
        assert told[f"operators in {word}"] == pytest.approx(here.mean(), abs=1e-6)
        assert told[f"flops in {word}"] == pytest.approx(
            graph.column("flops")[here].sum() / graph.column("flops").sum(), abs=1e-5
        )
        assert told[f"bytes in {word}"] == pytest.approx(moved[here].sum() / moved.sum(), abs=1e-5)
    assert told["operators"] == pytest.approx(np.log1p(20))
    assert told["edges"] == pytest.approx(np.log1p(graph.edges.shape[1]))
    assert told["weights_bytes"] == pytest.approx(np.log1p((graph.column("weights") * width).sum()), rel=1e-5)
    logs = np.log1p(graph.column("flops"))
    expected = {"mean": logs.mean(), "deviation": logs.std(), "largest": logs.max()}
    for name, value in expected.items():
        assert told[f"{name} flops"] == pytest.approx(value, rel=1e-5)
    assert told["bandwidth"] == pytest.approx(np.log1p(sample.gpu.memory_bandwidth))


def test_the_mean_is_the_mean(samples: list[Sample], occupancies: np.ndarray) -> None:
    answers = make("mean").fit(samples, occupancies).predict(samples[:3])
    assert answers.tolist() == [pytest.approx(occupancies.mean())] * 3


def test_the_nearest_agrees_with_all_distances(samples: list[Sample], occupancies: np.ndarray) -> None:
    known, asked = samples[::2], samples[1::2]
    answers = make("nearest").fit(known, occupancies[::2]).predict(asked)
    standardiser = Standardiser.fit([pooled_features(known)])
    distances = cdist(standardiser.apply(pooled_features(asked)), standardiser.apply(pooled_features(known)))
    np.testing.assert_array_equal(answers, occupancies[::2][distances.argmin(axis=1)])


def test_boosting_learns_what_sizes_tell(samples: list[Sample], occupancies: np.ndarray) -> None:
    known = np.arange(len(samples)) % 4 != 2
    fit = [one for one, is_known in zip(samples, known, strict=True) if is_known]
    asked = [one for one, is_known in zip(samples, known, strict=True) if not is_known]
    answers = make("boosting").fit(fit, occupancies[known]).predict(asked)
    mean = make("mean").fit(fit, occupancies[known]).predict(asked)
    assert np.abs(answers - occupancies[~known]).mean() < 0.7 * np.abs(mean - occupancies[~known]).mean()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", ["ratio", "seconds"])
def test_what_is_kept_answers_alike(
    name: str, target: str, samples: list[Sample], occupancies: np.ndarray, tmp_path: Path
) -> None:
    values = occupancies if target == "ratio" else 10.0 ** (6 * occupancies - 5)
    model = make(name, target=target).fit(samples, values)
    settings, arrays = model.state()
    np.savez(tmp_path / "arrays.npz", **arrays)
    with np.load(tmp_path / "arrays.npz", allow_pickle=False) as kept:
        restored = make(name).restore(json.loads(json.dumps(settings)), dict(kept))
    answers = restored.predict(samples)
    np.testing.assert_array_equal(answers, model.predict(samples))
    assert values.min() * 0.99 <= answers.min() and answers.max() <= values.max() * 1.01


@pytest.mark.parametrize("name", NAMES)
def test_no_samples_have_no_answers(name: str, samples: list[Sample], occupancies: np.ndarray) -> None:
    assert make(name).fit(samples, occupancies).predict([]).shape == (0,)


@pytest.mark.parametrize(
    ("values", "said"),
    [([0.5], "2 samples have 1 labels"), ([0.5, 1.2], "a label is 1.2, but occupancy"), ([0.5, np.nan], "a label is nan")],
)
def test_labels_that_cannot_be_are_one_sentence(values: list[float], said: str, samples: list[Sample]) -> None:
    with pytest.raises(InputError, match=said):
        make("mean").fit(samples[:2], np.array(values))


def test_seconds_are_above_zero(samples: list[Sample]) -> None:
    with pytest.raises(InputError, match="a label is 0, but seconds are finite and above 0; leave such rows out"):
        make("mean", target="seconds").fit(samples[:2], np.array([1.0, 0.0]))


def test_the_mean_of_seconds_is_geometric(samples: list[Sample]) -> None:
    assert make("mean", target="seconds").fit(samples[:2], np.array([1.0, 100.0])).predict(samples[:1])[0] == pytest.approx(10)


def test_an_unknown_model_is_told_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="unknown model 'gcn'; known are operator-mean, dnn-occu, mlp, "):
        make("gcn")


def test_no_epochs_are_refused() -> None:
    with pytest.raises(InputError, match="cannot train for 0 epochs; give 1 or more"):
        make("mean", epochs=0)


@pytest.mark.parametrize(
    ("name", "library", "importer"), [("dnn-occu", "torch", "graph_network"), ("brp-nas", "torch_geometric.nn", "brp_nas")]
)
def test_a_missing_library_is_one_sentence(name: str, library: str, importer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.delitem(sys.modules, f"{models.__name__}.{importer}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        InputError,
        match=f"the model {name} needs PyTorch or torch-geometric, which cannot be loaded .*; in a checkout run",
    ):
        make(name)


def test_seconds_are_learnt_as_standardised_logarithms() -> None:
    seconds = np.array([1e-4, 3e-3, 0.2])
    output = Output.of("seconds", seconds, 3)
    learnt = output.learnt(seconds)
    assert learnt == pytest.approx((np.log(seconds) - np.log(seconds).mean()) / np.log(seconds).std())
    assert output.values(output.answer(learnt)) == pytest.approx(seconds)
    assert Output.restored(output.state()) == output


def test_ratios_are_learnt_as_they_are_and_a_network_that_says_nothing_answers_their_mean() -> None:
    torch = pytest.importorskip("torch")
    ratios = np.array([0.1, 0.2, 0.6])
    output = Output.of("ratio", ratios, 3)
    assert output.learnt(ratios) is ratios
    assert output.answer(torch.zeros(2)).numpy() == pytest.approx(0.3)
    assert output.values(np.array([-0.1, 0.4, 1.1])).tolist() == [0.0, 0.4, 1.0]


def test_seconds_all_alike_have_no_spread_to_divide_by() -> None:
    seconds = np.full(3, 2.0)
    output = Output.of("seconds", seconds, 3)
    assert output.values(output.learnt(seconds)) == pytest.approx(seconds)
