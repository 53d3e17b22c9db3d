"""How wide an interval is, and what an answer says was measured."""

import math
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed (extra torch)")

from epochcast.analyzer.backends.distributed.fitted_model import Evidence, row_of
from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.predictor import IterationPredictor
from epochcast.regressor import load_catalog

CATALOG = load_catalog()
GPT = "gpt:hidden=256,layers=2,heads=4,vocab=1000"
RUNS, OPERATORS, NEW = (CATALOG[name] for name in ("A100 SXM4 80GB", "V100 PCIe 32GB", "L4"))


@pytest.fixture(scope="module")
def predictor() -> IterationPredictor:
    return IterationPredictor(ModelGraphs.of(GPT))


def evidence(predictor: IterationPredictor, gpu: Any, **job: Any) -> Evidence:
    asked = TrainingConfiguration(**{"sequence_length": 128, **job})
    found = predictor.evidence(gpu, asked, predictor.iteration(gpu, asked))
    assert found is not None
    return found


def test_the_interval_is_that_of_the_row_like_the_question(predictor: IterationPredictor) -> None:
    asked = {(RUNS, "fp16"): "measured", (OPERATORS, "fp32"): "measured", (NEW, "amp-bf16"): "new", (NEW, "fp32"): "new"}
    for (gpu, precision), known in asked.items():
        row = row_of("products", 32 if precision == "fp32" else 16, known)
        found = evidence(predictor, gpu, precision=precision)
        assert found.factor == pytest.approx(row.factor)
        assert any(f"{row.n} {row.measured}" in sentence for sentence in found.rests_on)
        assert any(gpu.name in sentence for sentence in found.not_measured) == (known == "new")


def test_what_was_not_measured_widens_and_is_named(predictor: IterationPredictor) -> None:
    new, measured = (row_of("products", 32, gpu) for gpu in ("new", "measured"))
    more = math.log(new.factor) ** 2 - math.log(measured.factor) ** 2
    assert more > 0
    hopper = CATALOG["H100 SXM5"]
    plain, fp8 = (evidence(predictor, hopper, precision=name) for name in ("amp-bf16", "fp8"))
    assert math.log(fp8.factor) ** 2 == pytest.approx(math.log(plain.factor) ** 2 + more)
    assert "no training in FP8 was measured, only products" in fp8.not_measured
    several = evidence(predictor, NEW, precision="fp32", data=2, global_batch=2)
    assert "no iteration in fp32 on several GPUs was measured" in several.not_measured
    context = evidence(predictor, hopper, context=2)
    assert "no training with context parallelism was measured" in context.not_measured
