"""The paper's method on this machine's CPU: its operators measured, summed, with the optimizer's step; and what it refuses."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

from epochcast.analyzer.backends.distributed.answer import DistributedAnswer  # noqa: E402
from epochcast.analyzer.backends.distributed.coefficients import Coefficients  # noqa: E402
from epochcast.analyzer.backends.distributed.communication import cluster_for  # noqa: E402
from epochcast.analyzer.backends.distributed.graph import Operator, Weight  # noqa: E402
from epochcast.analyzer.backends.distributed.graphs import ModelGraphs  # noqa: E402
from epochcast.analyzer.backends.distributed.iteration import iteration, prepare  # noqa: E402
from epochcast.analyzer.backends.distributed.job import TrainingConfiguration  # noqa: E402
from epochcast.analyzer.backends.distributed.operator_time import RememberedTimes  # noqa: E402
from epochcast.analyzer.backends.distributed.predictor import IterationPredictor  # noqa: E402
from epochcast.regressor import load_catalog  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

ASK = ("predict-model", "distributed", "--model", "gpt:hidden=32,layers=2,heads=2,vocab=64", "--sequence-length", "16")
HERE = ("--operators", "profile", "--device", "cpu")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_one_process_is_predicted_from_operators_measured_here(
    answered: Callable[..., Any], printed: Callable[..., str]
) -> None:
    answer = answered(*ASK, *HERE, "--precision", "fp32")
    DistributedAnswer.model_validate(answer)
    assert answer["mfu"] is None and answer["cost"] is None and answer["gpus"] == 1
    assert (answer["operators"], answer["graph"]) == ("profile", "recording")
    parts = dict(answer["parts"])
    compute = parts.pop("compute")
    assert {"matmul", "attention", "normalisation", "loss"} <= set(compute)
    assert answer["seconds"] == pytest.approx(sum(compute.values()) + sum(parts.values()))
    assert parts["optimizer"] > 0 and parts["data_parallel"] == 0
    assert any("threads as its operators were measured with: 1 " in note for note in answer["assumptions"])
    paper = answered(*ASK, *HERE, "--precision", "fp32", "--recipe", "seed", "--graph", "fx")
    assert paper["graph"] == "fx" and set(paper["parts"]["compute"]) == set(compute)
    assert paper["seconds"] == pytest.approx(sum(paper["parts"]["compute"].values()))  # Eq. 1 has no optimizer
    text = printed(*ASK, *HERE, "--precision", "fp32")
    assert "this machine needs" in text and "GPU" not in text and "cost" not in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--device cpu --gpu T4", "--device applies only to --operators profile"),
        ("--operators profile --device cpu --gpu T4 --dp 2 --tp 2 --pp 2", "leave out --dp, --tp, --pp, --gpu"),
        ("--operators profile --device cpu --search --gpus-total 1", "leave out --search"),
        ("--operators profile --device cpu --compare --timeline x.json", "leave out --compare, --timeline"),
        ("--operators profile --device cpu --recipe roofline", "leave out --recipe roofline"),
        ("--operators profile --device cpu --precision tf32", "has no tf32"),
        ("", "give --gpu NAME, or measure this machine with --operators profile --device cpu"),
    ],
)
def test_what_is_of_gpus_is_refused_in_one_sentence(options: str, said: str, refused: Callable[..., str]) -> None:
    assert said in refused(*ASK, *options.split())


class Measured:
    """A source of operator times that measures the optimizer too."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.estimated: dict[Operator, str] = {}

    def seconds(self, operators: Sequence[Operator]) -> NDArray[np.float64]:
        self.numbers.append(len(operators))
        return np.ones(len(operators))

    def optimizer_seconds(self, weights: Sequence[Weight], optimizer: str) -> float:
        return float(sum(one.tensor.elements for one in weights)) * (1 if optimizer == "adam" else 2)


def test_all_operators_are_asked_for_at_once_and_those_that_cannot_run_are_named() -> None:
    source = Measured()
    predictor = IterationPredictor(ModelGraphs.of("gpt:hidden=16,layers=2,heads=2,vocab=32"), times_of=lambda *_: source)
    gpu, job = load_catalog()["T4"], TrainingConfiguration(precision="fp32", sequence_length=8)
    assert predictor.measure(gpu, job) == ()
    graph = predictor.graphs.graph(job)
    assert source.numbers == [sum(len(block.operators) for block in (graph.before, *graph.blocks, graph.after))]
    source.estimated = {operator: "unknown" for operator in graph.before.operators if operator.kind == "embedding"}
    assert predictor.measure(gpu, job) == ("aten.embedding.default", "aten.embedding_dense_backward.default")


def test_the_optimizer_is_measured_where_a_rank_steps_all_weights_as_they_are() -> None:
    graphs = ModelGraphs.of("gpt:hidden=16,layers=2,heads=2,vocab=32")
    plain = TrainingConfiguration(precision="amp-bf16", sequence_length=8, global_batch=4)
    elements = graphs.graph(plain).parameters

    def update(memory: int = 80 * 2**30, **changes: Any) -> float:
        job, gpu = replace(plain, **changes), replace(load_catalog()["A100 SXM4 80GB"], memory=memory)
        prepared = prepare(graphs.graph(job), job, cluster_for(gpu, job.gpus))
        return iteration(prepared, RememberedTimes(Measured()), Coefficients()).optimizer

    assert update() == update(data=2) == update(precision="bf16", master_weights=False) == elements
    assert update(optimizer="sgd") == 2 * elements
    for changes in (
        {"data": 2, "zero": 1},
        {"tensor": 2},
        {"pipeline": 2},
        {"precision": "bf16"},
        {"precision": "amp-fp16"},
        {"memory": 2**20},
    ):
        assert 0 < update(**changes) < 1  # bytes over bandwidth: microseconds
