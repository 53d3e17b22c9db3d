"""What is trained, in which floating-point precision, what that asks of the GPU, and how it is spread over GPUs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import ConfigDict, computed_field

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


Recomputation = Literal["none", "selective", "full"]
ScheduleName = Literal["gpipe", "1f1b"]
ZeroStage = Literal[0, 1, 2, 3]
Attention = Literal["fused", "eager"]


@dataclass(frozen=True)
class TrainingConfiguration:
    """One training configuration; every count is checked when it is made.

    The question says what its fields mean (:mod:`.question`). The job runs on data x tensor x context x pipeline GPUs;
    ``layers_per_stage`` has pipeline x virtual stages entries, and models of images ignore ``sequence_length``.
    """

    __pydantic_config__ = ConfigDict(extra="ignore")  # computed fields, where an answer is read again

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    micro_batch: int = 1
    global_batch: int = 1
    sequence_length: int = 2048
    precision: str = "amp-bf16"
    schedule: ScheduleName = "1f1b"
    virtual_stages: int = 1
    layers_per_stage: tuple[int, ...] | None = None
    recomputation: Recomputation = "none"
    sequence_parallel: bool = False
    zero: ZeroStage = 0
    optimizer: Literal["adam", "sgd"] = "adam"
    master_weights: bool = True
    attention: Attention = "fused"
    fused_kernels: bool = False
    overlap: bool = False
    tensor_overlap: bool = False

    def __post_init__(self) -> None:
        precision_named(self.precision)
        for name, value in vars(self).items():
            if type(value) is int and value < (name != "zero"):
                raise InputError(f"{name.replace('_', ' ')} is {value}; it must be 1 or more")
        per_pass = self.data * self.micro_batch
        if self.global_batch % per_pass:
            raise InputError(
                f"a global batch of {self.global_batch} does not divide into {self.data} data ranks x micro-batches of "
                f"{self.micro_batch}; give a multiple of {per_pass}"
            )
        if self.sequence_length % self.context:
            raise InputError(
                f"a sequence of {self.sequence_length} tokens does not divide over {self.context} context ranks; use a divisor"
            )
        if self.virtual_stages > 1 and self.pipeline == 1:
            raise InputError(f"{self.virtual_stages} virtual stages need a pipeline; give 2 stages or more")
        if self.virtual_stages > 1 and self.schedule == "gpipe":
            raise InputError("virtual stages need the interleaved 1F1B schedule; leave out the schedule gpipe")
        if self.virtual_stages > 1 and self.micro_batches % self.pipeline:
            raise InputError(
                f"the interleaved schedule needs a multiple of the pipeline stages as micro-batches: {self.micro_batches} "
                f"over {self.pipeline} stages; change the global batch or the micro-batch"
            )

    @computed_field  # type: ignore[prop-decorator]
    @property
    def gpus(self) -> int:
        """GPUs that the job runs on."""
        return self.data * self.tensor * self.context * self.pipeline

    @computed_field  # type: ignore[prop-decorator]
    @property
    def micro_batches(self) -> int:
        """Micro-batches per iteration and data rank."""
        return self.global_batch // (self.data * self.micro_batch)

    @property
    def shards(self) -> int:
        """Ranks that hold the same weights, over which gradients are reduced and ZeRO shards: data x context."""
        return self.data * self.context

    @property
    def traced_precision(self) -> Precision:
        """The precision of the operators: ZeRO 2 and 3 (FSDP) cast the parameters themselves, in place of autocast."""
        precision = precision_named(self.precision)
        if self.zero < 2 or precision.autocast is None:
            return precision
        return replace(precision, weights=precision.autocast, autocast=None)

    @property
    def keeps_master(self) -> bool:
        """Whether 16-bit weights have an FP32 copy: as the job says, and always the shard that FSDP's mixed precision casts."""
        return self.master_weights or self.traced_precision != precision_named(self.precision)

    @property
    def sharding(self) -> str:
        """Its stage of ZeRO, in words."""
        return "ZeRO 3 (FSDP)" if self.zero == 3 else f"ZeRO {self.zero}"

    @property
    def degrees(self) -> tuple[int, int, int]:
        """Data, tensor and pipeline ranks."""
        return self.data, self.tensor, self.pipeline

    @property
    def text(self) -> str:
        """``data 8 x tensor 4 x pipeline 2, micro-batch 1, amp-bf16`` with what else is not usual."""
        more = [
            f"{self.recomputation} recomputation" if self.recomputation != "none" else "",
            self.sharding if self.zero else "",
            f"{self.virtual_stages} virtual stages" if self.virtual_stages > 1 else "",
            "sequence parallel" if self.sequence_parallel else "",
        ]
        degrees = f"data {self.data} x tensor {self.tensor} x pipeline {self.pipeline}"
        if self.context > 1:
            degrees += f" x context {self.context}"
        return ", ".join(part for part in (degrees, f"micro-batch {self.micro_batch}", self.precision, *more) if part)
