"""What is trained and how it is spread over GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pydantic import ConfigDict, computed_field

from epochcast.analyzer.backends.distributed.plan.precision import Precision, precision_named
from epochcast.analyzer.errors import InputError

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
