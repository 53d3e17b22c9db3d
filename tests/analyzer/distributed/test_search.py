"""The search over ways to spread a training, against a plain loop over all of them."""

from dataclasses import replace
from datetime import date
from itertools import product
from typing import Any

import pytest

pytest.importorskip("torch")

from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs
from epochcast.analyzer.backends.distributed.plan import memory
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration, available
from epochcast.analyzer.backends.distributed.predictor import IterationPredictor, model_flops
from epochcast.analyzer.backends.distributed.search import Search
from epochcast.analyzer.backends.rent import Rent, cheapest_rent
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices import Instance
from epochcast.regressor import Gpu, load_catalog

MODEL = "gpt:hidden=128,layers=4,heads=4,vocab=512,positions=128"
T4 = load_catalog()["T4"]
TEMPLATE = TrainingConfiguration(global_batch=24, sequence_length=128, attention="eager")


@pytest.fixture(scope="module")
def predictor() -> IterationPredictor:
    return IterationPredictor(ModelGraphs.of(MODEL))


def searched(predictor: IterationPredictor, gpu: Gpu, count: int, given: Any = None, precisions: Any = ()) -> Search:
    found = Search(predictor, TEMPLATE, given or {}, precisions)
    found.run([(gpu, count)])
    return found


def test_every_configuration_is_tried_with_the_least_recomputation_that_fits_and_the_fastest_sharding(
    predictor: IterationPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CONTEXT_BYTES", "COMMUNICATOR_BYTES"):
        monkeypatch.setattr(memory, name, 0.0)
    gpu = replace(T4, name="T4 with 26 MiB", memory=26 * 2**20)
    found = searched(predictor, gpu, 4, precisions=("fp32",))
    expected, too_large = {}, 0
    for precision, data, tensor, pipeline in product(("fp32",), (1, 2, 4), (1, 2, 4), (1, 2, 4)):
        if data * tensor * pipeline != 4:
            continue
        for micro_batch in (size for size in range(1, 25) if 24 // data % size == 0 and 24 % data == 0):
            settings = {"data": data, "tensor": tensor, "pipeline": pipeline, "micro_batch": micro_batch}
            jobs = [
                replace(TEMPLATE, precision=precision, recomputation=choice, zero=zero, **settings)
                for choice in ("none", "selective", "full")
                for zero in ((0, 1, 2, 3) if data > 1 else (0,))
            ]
            fitting = [job for job in jobs if predictor.prepared(gpu, job).memory.fits]
            if fitting:
                least = [job for job in fitting if job.recomputation == fitting[0].recomputation]
                best = min(least, key=lambda job: predictor.iteration(gpu, job).seconds)
                expected[best] = predictor.iteration(gpu, best).seconds
            else:
                too_large += 1
    assert {job.recomputation for job in expected} == {"none", "selective", "full"}, "the memory tells them apart"
    assert {job: iteration.seconds for _, job, iteration in found.candidates} == expected
    assert 0 < found.too_large <= too_large


def test_all_precisions_of_the_gpu_and_degrees_that_divide(predictor: IterationPredictor) -> None:
    found = searched(predictor, T4, 6, {"micro_batch": 1})
    assert {job.precision for _, job, _ in found.candidates} == set(available(T4)) == {"fp32", "fp16", "amp-fp16"}
    assert {job.tensor for _, job, _ in found.candidates} == {1, 2}, "3 and 6 do not divide 4 heads"
    assert {job.pipeline for _, job, _ in found.candidates} == {1, 2, 3}, "4 layers do not fill 6 stages"
    assert "3 tensor ranks" in found.refused and "4" in found.refused["3 tensor ranks"]


def test_nothing_possible_tells_the_reason(predictor: IterationPredictor) -> None:
    with pytest.raises(InputError, match="bfloat16"):
        searched(predictor, T4, 4, precisions=("bf16",))
    with pytest.raises(InputError, match="does not divide over 3 tensor ranks"):
        searched(predictor, T4, 3, {"tensor": 3})
    with pytest.raises(InputError, match="do not fill nodes"):
        searched(predictor, T4, 12)


def _instance(name: str, count: int, usd: float | None, gpu: str = "T4") -> Instance:
    return Instance("cloud", name, gpu, count, "any", usd, "a test", date(2026, 1, 1))


def test_the_cheapest_instances_hold_whole_nodes() -> None:
    single, four, eight = _instance("one", 1, 0.5), _instance("four", 4, 2.6), _instance("eight", 8, 4.8)
    others = [_instance("spot", 8, None), _instance("another", 8, 0.1, gpu="A100 SXM4 80GB")]
    rent = cheapest_rent([single, four, eight, *others], "T4", 12, 4)
    assert rent == Rent(four, 3, pytest.approx(7.8)), "two of eight cost 9.6, and single GPUs are not linked as a node is"
    assert cheapest_rent([single, *others], "T4", 12, 4) == Rent(single, 12, 6.0)
    assert cheapest_rent(others, "T4", 12, 4) is None
    assert rent is not None and rent.usd(1800) == pytest.approx(3.9)


def test_model_flops_are_six_per_parameter_and_token_and_attention(predictor: IterationPredictor) -> None:
    """Narayanan et al. 2021, equation 3, without recomputation: 72 b s l h² (1 + s / 6h + V / 12 l h)."""
    job = replace(TEMPLATE, data=2, tensor=2, micro_batch=4, precision="fp16")
    flops = model_flops(predictor.graphs.graph(job), job)
    b, s, l, h, vocab = 24, 128, 4, 128, 512  # noqa: E741
    assert flops == pytest.approx(72 * b * s * l * h**2 * (1 + s / (6 * h) + vocab / (12 * l * h)), rel=0.01)
