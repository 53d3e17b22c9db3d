"""Jobs that cannot be are refused in one sentence, and GPUs compute only what their data sheets say."""

from dataclasses import replace

import pytest

from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration, peak_flops, precision_named, require
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

A100, V100 = (load_catalog().resolve(name) for name in ("A100 SXM4 80GB", "V100 SXM2 16GB"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tensor": 0}, "tensor is 0; it must be 1 or more"),
        ({"data": 3, "micro_batch": 2, "global_batch": 8}, "8 does not divide into 3 .* of 2; give a multiple of 6"),
        ({"virtual_stages": 2}, "2 virtual stages need a pipeline; give 2 stages or more"),
        ({"virtual_stages": 2, "pipeline": 2, "global_batch": 2, "schedule": "gpipe"}, "leave out the schedule gpipe"),
        (
            {"virtual_stages": 2, "pipeline": 2, "global_batch": 3},
            "a multiple of the pipeline stages as micro-batches: 3 over 2 stages; change",
        ),
        ({"precision": "int8"}, "unknown precision 'int8'; choose one of fp32, tf32"),
        ({"context": 3, "sequence_length": 2048}, "2048 tokens does not divide over 3 context ranks"),
    ],
)
def test_a_job_that_cannot_be_is_one_sentence(settings, message) -> None:
    with pytest.raises(InputError, match=message):
        TrainingConfiguration(**settings)


def test_products_run_on_tensor_cores_where_the_gpu_has_them() -> None:
    assert peak_flops(A100, "float32") == A100.fp32_flops < peak_flops(A100, "tf32") == A100.tf32_tensor_flops
    assert peak_flops(A100, "float16") == A100.fp16_tensor_flops
    assert peak_flops(A100, "bfloat16") == A100.bf16_tensor_flops
    slow_halves = replace(V100, fp16_tensor_flops=None, fp16_flops=V100.fp32_flops / 64)
    assert peak_flops(slow_halves, "float16") == V100.fp32_flops  # as libraries compute them in single precision
    fast_halves = replace(slow_halves, fp16_flops=2 * V100.fp32_flops)
    assert peak_flops(fast_halves, "float16") == 2 * V100.fp32_flops


@pytest.mark.parametrize(("precision", "asked"), [("bf16", "bfloat16"), ("amp-bf16", "bfloat16"), ("tf32", "tf32")])
def test_a_gpu_without_the_precision_is_refused_with_those_that_it_has(precision, asked) -> None:
    with pytest.raises(InputError, match=f"V100.* has no {asked} arithmetic .* train in fp32 or fp16 or on another GPU"):
        require(V100, precision_named(precision))
    require(A100, precision_named(precision))
