"""Which operator times a question takes, how wide its interval is, and what it says was measured."""

import math
from dataclasses import replace
from typing import Any

import pytest

from epochcast.analyzer.backends.distributed.evidence import Evidence, HeldOutErrors, held_out
from epochcast.analyzer.backends.distributed.fitted_model import DistributedModel
from epochcast.analyzer.backends.distributed.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.operator_time.learned import Board, FamilyModel, OperatorModel
from epochcast.analyzer.backends.distributed.prediction import EXCHANGES
from epochcast.analyzer.backends.distributed.predictor import IterationPredictor
from epochcast.regressor import load_catalog

torch = pytest.importorskip("torch")

from epochcast.analyzer.backends.distributed.answer import Parts  # noqa: E402
from epochcast.analyzer.backends.distributed.graphs import ModelGraphs  # noqa: E402
from epochcast.analyzer.backends.distributed.resolved import interval  # noqa: E402

CATALOG = load_catalog()
GPT = "gpt:hidden=256,layers=2,heads=4,vocab=1000"
MEASURED_RUNS = CATALOG["A100 SXM4 80GB"]
MEASURED_OPERATORS = CATALOG["V100 PCIe 32GB"]
NEW = CATALOG["H100 SXM5"]


def row(kind: str, bits: int, gpu: str, source: str) -> HeldOutErrors:
    (found,) = [one for one in held_out() if (one.kind, one.bits, one.gpu, one.source) == (kind, bits, gpu, source)]
    return found


@pytest.fixture(scope="module")
def predictor() -> IterationPredictor:
    return IterationPredictor(ModelGraphs.of(GPT), fitted=DistributedModel.load())


def evidence(predictor: IterationPredictor, gpu: Any, **job: Any) -> Evidence:
    asked = TrainingConfiguration(**{"sequence_length": 128, **job})
    found = predictor.evidence(gpu, asked, predictor.iteration(gpu, asked))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("precision", "source"), [("fp32", "learned"), ("tf32", "learned"), ("fp16", "calibrated"), ("amp-bf16", "calibrated")]
)
def test_the_usual_source_is_the_closer_one(predictor: IterationPredictor, precision: str, source: str) -> None:
    assert predictor.source(NEW, TrainingConfiguration(precision=precision, sequence_length=128)) == source


@pytest.mark.parametrize(("precision", "source"), [("fp32", "learned"), ("fp16", "calibrated")])
def test_of_convolutional_networks_too(precision: str, source: str) -> None:
    predictor = IterationPredictor(ModelGraphs.of("resnet18"), fitted=DistributedModel.load())
    assert predictor.source(NEW, TrainingConfiguration(precision=precision)) == source
    assert any("predict-model convmeter" in sentence for sentence in evidence(predictor, NEW, precision=precision).not_measured)


def test_a_precision_in_which_this_gpu_was_measured_takes_its_operators() -> None:
    shipped = DistributedModel.load()
    assert shipped.operators is not None
    families = {
        name: FamilyModel(family.trees, {**family.rates, (NEW.name, "bfloat16"): next(iter(family.rates.values()))})
        for name, family in shipped.operators.families.items()
    }
    boards = {**shipped.operators.boards, NEW.name: Board(NEW.tdp, NEW.compute_capability)}
    own = IterationPredictor(ModelGraphs.of(GPT), fitted=replace(shipped, operators=OperatorModel(families, boards)))
    assert own.source(NEW, TrainingConfiguration(precision="amp-bf16")) == "learned"
    assert own.source(NEW, TrainingConfiguration(precision="amp-fp16")) == "calibrated"
    assert own.source(MEASURED_RUNS, TrainingConfiguration(precision="amp-bf16")) == "calibrated"


def test_no_kind_of_question_is_answered_worse_than_by_data_sheets() -> None:
    kinds = {(one.kind, one.bits) for one in held_out() if one.kind in ("products", "convolutions")}
    assert len(kinds) == 4
    for kind in kinds:
        best = min((one for one in held_out() if (one.kind, one.bits) == kind), key=lambda one: one.mape)
        assert best.mape < best.roofline, best


def test_what_was_measured_has_the_interval_of_its_row(predictor: IterationPredictor) -> None:
    found = evidence(predictor, MEASURED_OPERATORS, precision="fp32")
    measured = row("products", 32, "measured", "learned")
    assert found.factor == pytest.approx(measured.factor)
    assert found.not_measured == ()
    assert f"{measured.mape:.1f} %" in found.rests_on[1]
    runs = evidence(predictor, MEASURED_RUNS, precision="fp16", data=8, global_batch=8)
    assert runs.factor == pytest.approx(row("products", 16, "measured", "calibrated").factor)
    assert runs.exchange_factor > runs.factor
    assert [sentence for sentence in runs.not_measured if "billion" not in sentence] == []


def test_what_was_not_measured_widens_and_is_named(predictor: IterationPredictor) -> None:
    known = math.log(evidence(predictor, MEASURED_RUNS, precision="fp16").factor) ** 2
    learned = {gpu: row("products", 32, gpu, "learned") for gpu in ("new", "measured")}
    more = math.log(learned["new"].factor) ** 2 - math.log(learned["measured"].factor) ** 2
    assert more > 0
    new = evidence(predictor, NEW, precision="amp-bf16")
    assert math.log(new.factor) ** 2 == pytest.approx(known + 2 * more)
    assert f"no iteration on {NEW.name} was measured" in new.not_measured
    assert "no iteration in amp-bf16 was measured (measured: fp16)" in new.not_measured
    # A GPU without measured operators has a row of its own, which is no wider for saying so.
    other = evidence(predictor, NEW, precision="fp32")
    assert other.factor == pytest.approx(learned["new"].factor)
    assert f"no operator of {NEW.name} in fp32 was measured" in other.not_measured
    several = evidence(predictor, NEW, precision="fp32", data=2, global_batch=2)
    assert "no iteration in fp32 on several GPUs was measured" in several.not_measured
    fused = evidence(predictor, NEW, precision="fp32", fused_kernels=True)
    assert any("fusion" in sentence for sentence in fused.not_measured)
    assert fused.factor > other.factor


def test_a_link_that_was_not_measured_widens_what_it_takes(predictor: IterationPredictor) -> None:
    job = TrainingConfiguration(sequence_length=128, precision="fp16", data=8, global_batch=8)
    slow = replace_links(predictor, "PCIe 3 x16")
    for each, measured in ((predictor, True), (slow, False)):
        iteration = each.iteration(MEASURED_RUNS, job)
        found = each.evidence(MEASURED_RUNS, job, iteration)
        assert found is not None
        assert any("all-reduces over" in sentence for sentence in found.not_measured) is not measured
        parts = Parts.model_validate(iteration).times(found.factor, found.exchange_factor)
        for name in EXCHANGES:
            assert getattr(parts, name) == pytest.approx(getattr(iteration, name) * found.exchange_factor)
        assert parts.optimizer == pytest.approx(iteration.optimizer * found.factor)
        assert parts.compute["matmul"] == pytest.approx(iteration.compute["matmul"] * found.factor)
        low, high = interval(iteration, found)
        assert low is not None and high is not None and low * high == pytest.approx(iteration.seconds**2)


def replace_links(predictor: IterationPredictor, name: str) -> IterationPredictor:
    from epochcast.analyzer.backends.distributed.communication import link_named

    return IterationPredictor(predictor.graphs, fitted=predictor.fitted, intra=link_named(name))


def test_other_recipes_have_no_interval(predictor: IterationPredictor) -> None:
    paper = IterationPredictor(predictor.graphs, "seed", predictor.fitted)
    job = TrainingConfiguration(sequence_length=128)
    assert paper.evidence(NEW, job, paper.iteration(NEW, job)) is None
    assert paper.source(NEW, replace(job, precision="fp32")) == "calibrated"
    assert interval(paper.iteration(NEW, job), None) == (None, None)


@pytest.mark.parametrize("tensor", [1, 4])
def test_the_size_of_the_whole_model_is_said_whatever_a_rank_holds(predictor: IterationPredictor, tensor: int) -> None:
    (size,) = [
        text for text in evidence(predictor, MEASURED_RUNS, precision="fp16", tensor=tensor).not_measured if "billion" in text
    ]
    billions = predictor.graphs.graph(TrainingConfiguration(sequence_length=128)).parameters / 1e9
    assert f"the model has {billions:.3g} billion parameters; measured models had 3.56 to 39.1" == size
