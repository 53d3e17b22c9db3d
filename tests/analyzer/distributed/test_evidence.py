"""Which operator times a question takes, how wide its interval is, and what it says was measured."""

import math
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed (extra torch)")

from epochcast.analyzer.backends.distributed.evidence import Evidence, HeldOutErrors, held_out
from epochcast.analyzer.backends.distributed.fitted_model import DistributedModel
from epochcast.analyzer.backends.distributed.graphs import ModelGraphs
from epochcast.analyzer.backends.distributed.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.predictor import IterationPredictor
from epochcast.regressor import load_catalog

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
