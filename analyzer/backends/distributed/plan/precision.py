"""Floating-point precisions of training, and what each asks of the GPU."""

from __future__ import annotations

from contextlib import suppress
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
        fp8: whether the matrix products of linear layers but the head run on FP8 tensor cores, both ways; all else is as under
            autocast (Micikevicius et al. 2022, "FP8 formats for deep learning").
        loss_scaling: whether FP16 gradients need it (unscaling and the check for infinities read every gradient once more).
    """

    name: str
    weights: str
    autocast: str | None = None
    tf32: bool = False
    fp8: bool = False
    loss_scaling: bool = False

    @property
    def products(self) -> str:
        """Dtype of the matrix products of linear layers: torch's name, ``tf32`` or ``fp8``."""
        return "fp8" if self.fp8 else "tf32" if self.tf32 else self.autocast or self.weights


PRECISIONS = {
    precision.name: precision
    for precision in (
        Precision("fp32", "float32"),
        Precision("tf32", "float32", tf32=True),
        Precision("fp16", "float16", loss_scaling=True),
        Precision("bf16", "bfloat16"),
        Precision("amp-fp16", "float32", autocast="float16", loss_scaling=True),
        Precision("amp-bf16", "float32", autocast="bfloat16"),
        Precision("fp8", "float32", autocast="bfloat16", fp8=True),
    )
}


def precision_named(name: str) -> Precision:
    """Look a precision up by name; raises InputError with the known ones."""
    if name not in PRECISIONS:
        raise InputError(f"unknown precision {name!r}; choose one of {', '.join(PRECISIONS)}")
    return PRECISIONS[name]


def peak_flops(gpu: Gpu, dtype: str) -> float:
    """Dense FLOP/s of matrix products in ``dtype``, from the data sheet: tensor cores where the GPU has them for it.

    Args:
        gpu: of the catalogue.
        dtype: torch's name, ``tf32`` or ``fp8``.

    Raises:
        InputError: the GPU does not compute in that dtype (its row in the catalogue has no figure for it).
    """
    plain = gpu.fp32_flops or gpu.effective_flops
    peaks = {
        "float32": plain,
        "tf32": gpu.tf32_tensor_flops,
        # Where half arithmetic is slow (Pascal but for the P100), libraries compute halves in FP32.
        "float16": gpu.fp16_tensor_flops or (max(gpu.fp16_flops, plain) if gpu.fp16_flops else None),
        "bfloat16": gpu.bf16_tensor_flops,
        "fp8": gpu.fp8_tensor_flops,
        "float64": gpu.fp64_flops and (gpu.fp64_tensor_flops or gpu.fp64_flops),
    }
    if peak := peaks.get(dtype):
        return peak
    short = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
    able = [short.get(name, name) for name, peak in peaks.items() if peak and name != "float64"]
    raise InputError(f"{gpu.name} has no {dtype} arithmetic in the catalogue; train in {' or '.join(able)} or on another GPU")


def require(gpu: Gpu, precision: Precision) -> None:
    """Raise InputError unless the GPU computes in every dtype of the precision."""
    for dtype in {precision.products, precision.autocast or precision.weights}:
        peak_flops(gpu, "float32" if precision.tf32 and dtype == "float32" else dtype)


def available(gpu: Gpu) -> tuple[str, ...]:
    """The precisions that a GPU computes in."""
    able = []
    for name, precision in PRECISIONS.items():
        with suppress(InputError):
            require(gpu, precision)
            able.append(name)
    return tuple(able)
