"""The arithmetic of a job: which precision it computes in, and how fast a GPU is in that."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from epochcast.regressor.gpus import Gpu
    from epochcast.regressor.profile import Profile

Precision = Literal["fp32", "tf32", "mixed", "fp8"]
"""What a job's matrix products are computed in:

- ``fp32``: FP32 on every GPU (TF32 switched off).
- ``tf32``: FP32 code that the framework runs in TF32 where the GPU has it (Ampere and newer), and in FP32 elsewhere.
- ``mixed``: FP16 or BF16 under autocast, on tensor cores where the GPU has them.
- ``fp8``: FP8 where the GPU has it, else as ``mixed``; no measurement covers it yet.
"""

KIND: Mapping[Precision, str] = {"fp32": "single", "tf32": "single", "mixed": "half", "fp8": "half"}
"""What kind of arithmetic each is."""

PRECISIONS: tuple[Precision, ...] = get_args(Precision)

CODE: Mapping[Precision, str] = {
    "fp32": "FP32 without TF32",
    "tf32": "FP32 code",
    "mixed": "mixed precision",
    "fp8": "FP8",
}
"""What a reader calls each; FP32 code without more counts as ``tf32``."""

# Words of training scripts, Lightning's and ours among them. FP32 code counts as tf32: cuDNN's convolutions use TF32 by
# PyTorch's default, and so do all of TensorFlow's products and those in NVIDIA's containers.
_WORDS: dict[str, Precision] = {
    **dict.fromkeys(("fp32", "float32", "32", "32-true", "single", "tf32"), "tf32"),
    **dict.fromkeys(("amp", "mixed", "fp16", "16", "16-mixed", "16-true", "float16", "half"), "mixed"),
    **dict.fromkeys(("bf16", "bf16-mixed", "bf16-true", "bfloat16"), "mixed"),
    **dict.fromkeys(("fp8", "transformer-engine"), "fp8"),
}

# CUDA programming guide, "Compute Capabilities": 7.0 is Volta, 8.0 Ampere.
_FIRST_WITH_TENSOR_CORES = 7.0
_FIRST_WITH_TF32 = 8.0

# Share of the time in which a pipe works. Below it, a library's odd kernel; a network in 16 bits shows 0.05 to 0.5 of the
# tensor pipe. By choice.
_IN_USE = 0.02

# SMs that are busy for this share of the time have work, and so has the FP32 pipe: by choice. On an H200 (data/h200) a product
# in FP32 shows 0.76 of it, a copy of memory, which keeps the SMs as busy, 0.
_BUSY, _FP32_WORK = 0.5, 0.1

# What is taken for likely where nothing is known: one in two jobs on a GPU with tensor cores uses them in 16 bits. By choice
# (decision 0040).
_UNKNOWN: Mapping[Precision, float] = {"tf32": 0.5, "mixed": 0.5}


def precision_of(word: str | None) -> Precision | None:
    """Return the precision that a label file or a configuration means by ``word``; None where it is none we know."""
    return None if word is None else _WORDS.get(word.strip().lower())


def arithmetic_rate(gpu: "Gpu", precision: Precision) -> float:
    """Return the data sheet's rate of matrix products [FLOP/s], dense, in the best way that the GPU has for this precision.

    Without tensor cores half precision counts where it is faster than FP32 (P100), else FP32 does.
    """
    fp32 = 2.0 * gpu.cuda_cores * gpu.boost_clock
    if precision == "fp32":
        return fp32
    if precision == "tf32":
        return gpu.tf32_tensor_flops or fp32
    half = gpu.fp16_tensor_flops or gpu.bf16_tensor_flops or max(gpu.fp16_flops or 0.0, fp32)
    return (gpu.fp8_tensor_flops or half) if precision == "fp8" else half


def overall_flop_utilization(profile: "Profile", gpu: "Gpu") -> float | None:
    """Return OFU (arXiv 2605.20799), 0..1: the mean of tensor activity times SM clock over the GPU's highest SM clock.

    It is the share of the peak of dense matrix products that a job reaches, in whichever precision it computes (within 0.03 on
    an H200, data/h200). What runs outside tensor cores counts as nothing. None where the profile lacks either metric: busy SMs
    or utilisation do not show it.
    """
    return None if profile.tensor_clock is None else profile.tensor_clock / gpu.boost_clock


def tensor_cores_idle(profile: "Profile", gpu: "Gpu") -> bool:
    """Return whether a profile shows busy SMs that compute in FP32 on a GPU with tensor cores, and no work on these."""
    means = {name: statistics["mean"] for name, statistics in profile.metrics.items()}
    busy = means.get("sm_active", 0.0) >= _BUSY and means.get("fp32_active", 1.0) >= _FP32_WORK
    return busy and gpu.fp16_tensor_flops is not None and means.get("tensor_active", 1.0) < _IN_USE


def likely_precisions(profile: "Profile", gpu: "Gpu") -> tuple[dict[Precision, float], str]:
    """Return how likely each precision is for the job of a profile on ``gpu``, adding up to 1, and the evidence for it.

    What the user declares counts; else what the telemetry shows; else both of FP32 code and mixed precision are as likely.
    FP32 code counts as ``tf32``. The FP32 pipe shows nothing: under autocast it does the work that is no matrix product.
    """
    if profile.precision is not None:
        return {profile.precision: 1.0}, "declared"
    if gpu.compute_capability < _FIRST_WITH_TENSOR_CORES:
        return {"tf32": 1.0}, f"assumed: the {gpu.name} has no tensor cores, which mixed precision is for"
    half = profile.metrics.get("fp16_active", {"mean": 0.0})["mean"]
    if "tensor_active" not in profile.metrics:
        return ({"mixed": 1.0}, f"fp16_active {half:.2f}") if half >= _IN_USE else (dict(_UNKNOWN), "not known")
    share = profile.metrics["tensor_active"]["mean"]
    if share < _IN_USE:
        code: Precision = "tf32" if gpu.compute_capability < _FIRST_WITH_TF32 else "fp32"
        return {code: 1.0}, f"tensor_active is {share:.2f}, so no tensor cores work"
    if gpu.compute_capability < _FIRST_WITH_TF32:
        return {"mixed": 1.0}, f"tensor_active is {share:.2f}, and on the {gpu.name} only 16 bits use tensor cores"
    if half >= _IN_USE:
        return {"mixed": 1.0}, f"tensor_active is {share:.2f} and fp16_active {half:.2f}"
    return dict(_UNKNOWN), f"tensor_active is {share:.2f}, TF32 or 16 bits"
