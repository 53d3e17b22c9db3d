"""Floating-point precisions of training, what each asks of the GPU, and how many bytes the weights' states take."""

from __future__ import annotations

from dataclasses import dataclass

from epochcast.analyzer.errors import InputError
from epochcast.regressor import Gpu


@dataclass(frozen=True)
class Precision:
    """How a training computes.

    Attributes:
        name: as the command line takes it.
        weights: dtype of the parameters and, without autocast, of everything.
        autocast: dtype that torch's autocast casts to, or None.
        tf32: whether FP32 matrix products run on TF32 tensor cores.
        loss_scaling: whether FP16 gradients need it (unscaling and the check for infinities read every gradient once more).
    """

    name: str
    weights: str
    autocast: str | None = None
    tf32: bool = False
    loss_scaling: bool = False


PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision("fp32", "float32"),
        Precision("tf32", "float32", tf32=True),
        Precision("fp16", "float16", loss_scaling=True),
        Precision("bf16", "bfloat16"),
        Precision("amp-fp16", "float32", autocast="float16", loss_scaling=True),
        Precision("amp-bf16", "float32", autocast="bfloat16"),
    )
}


def precision_named(name: str) -> Precision:
    """Look a precision up by name; raises InputError with the known ones."""
    if "fp8" in name.lower():
        raise InputError(
            f"no training in FP8 was measured, so {name!r} is not predicted; choose one of {', '.join(PRECISIONS)}"
        )
    if name not in PRECISIONS:
        raise InputError(f"unknown precision {name!r}; choose one of {', '.join(PRECISIONS)}")
    return PRECISIONS[name]


def peak_flops(gpu: Gpu, dtype: str, tf32: bool = False) -> float:
    """Dense FLOP/s of matrix products in ``dtype``, from the data sheet: tensor cores where the GPU has them for it.

    Raises:
        InputError: the GPU does not compute in that dtype (its row in the catalogue has no figure for it).
    """
    plain = gpu.fp32_flops or gpu.effective_flops
    if dtype == "float32":
        if not tf32:
            return plain
        if gpu.tf32_tensor_flops:
            return gpu.tf32_tensor_flops
    if dtype == "bfloat16" and gpu.bf16_tensor_flops:
        return gpu.bf16_tensor_flops
    if dtype == "float16" and (gpu.fp16_tensor_flops or gpu.fp16_flops):
        # Where half arithmetic is slow (Pascal but for the P100), libraries compute halves in FP32.
        return gpu.fp16_tensor_flops or max(gpu.fp16_flops or 0.0, plain)
    if dtype == "float64" and gpu.fp64_flops:
        return gpu.fp64_tensor_flops or gpu.fp64_flops
    requested = "tf32" if tf32 else dtype
    able = [
        name
        for name, figure in (
            ("fp32", plain),
            ("tf32", gpu.tf32_tensor_flops),
            ("fp16", gpu.fp16_tensor_flops or gpu.fp16_flops),
            ("bf16", gpu.bf16_tensor_flops),
        )
        if figure
    ]
    raise InputError(
        f"{gpu.name} has no {requested} arithmetic in the catalogue; train in {' or '.join(able)} or on another GPU"
    )


def require(gpu: Gpu, precision: Precision) -> None:
    """Raise InputError unless the GPU computes in every dtype of the precision."""
    peak_flops(gpu, precision.autocast or precision.weights, precision.tf32)
