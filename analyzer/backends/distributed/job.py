"""What is trained and how it is spread over GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import computed_field

from epochcast.analyzer.backends.distributed.precision import precision_named
from epochcast.analyzer.errors import InputError

Recomputation = Literal["none", "selective", "full"]
ScheduleName = Literal["gpipe", "1f1b"]
Attention = Literal["fused", "eager"]


@dataclass(frozen=True)
class TrainingConfiguration:
    """One training configuration; every count is checked when it is made.

    Attributes:
        data, tensor, pipeline: degrees of parallelism d, t, p; the job runs on d x t x p GPUs.
        micro_batch: samples that one rank computes at once.
        global_batch: samples per iteration over all ranks.
        sequence_length: tokens per sample of a text model; ignored by models of images.
        precision: a name of :data:`.precision.PRECISIONS`.
        schedule: order of micro-batches in a pipeline.
        virtual_stages: chunks of layers per pipeline rank (interleaved 1F1B; Narayanan et al. 2021, section 2.2).
        layers_per_stage: given layers of each stage (length p x virtual_stages); None: balanced.
        recomputation: of activations in the backward pass.
        sequence_parallel: norms and dropout split along the sequence over the tensor ranks.
        zero: stage of the Zero Redundancy Optimizer, 0 or 1 (optimizer states sharded over the data ranks).
        optimizer: ``adam`` (also AdamW), ``sgd`` with momentum.
        master_weights: FP32 copies of FP16/BF16 weights, as Megatron and DeepSpeed keep; nothing under fp32 or amp.
        attention: fused (flash) kernels or matrix products and softmax of their own.
        fused_kernels: whether neighbouring one-pass operators run as one kernel.
        overlap: whether gradients are reduced alongside the backward pass (torch DDP, Megatron's overlap-grad-reduce).
        tensor_overlap: whether backward exchanges of the tensor ranks run alongside the products of weight gradients
            (Megatron-LM's asynchronous all-reduce in tensor-parallel layers).
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    micro_batch: int = 1
    global_batch: int = 1
    sequence_length: int = 2048
    precision: str = "amp-bf16"
    schedule: ScheduleName = "1f1b"
    virtual_stages: int = 1
    layers_per_stage: tuple[int, ...] | None = None
    recomputation: Recomputation = "none"
    sequence_parallel: bool = False
    zero: Literal[0, 1] = 0
    optimizer: Literal["adam", "sgd"] = "adam"
    master_weights: bool = True
    attention: Attention = "fused"
    fused_kernels: bool = False
    overlap: bool = False
    tensor_overlap: bool = False

    def __post_init__(self) -> None:
        precision_named(self.precision)
        for name in ("data", "tensor", "pipeline", "micro_batch", "global_batch", "sequence_length", "virtual_stages"):
            if (value := getattr(self, name)) < 1:
                raise InputError(f"{name.replace('_', ' ')} is {value}; it must be 1 or more")
        per_pass = self.data * self.micro_batch
        if self.global_batch % per_pass:
            raise InputError(
                f"a global batch of {self.global_batch} does not divide into {self.data} data ranks x micro-batches of "
                f"{self.micro_batch}; give a multiple of {per_pass}"
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
        return self.data * self.tensor * self.pipeline

    @computed_field  # type: ignore[prop-decorator]
    @property
    def micro_batches(self) -> int:
        """Micro-batches per iteration and data rank."""
        return self.global_batch // (self.data * self.micro_batch)

    @property
    def degrees(self) -> tuple[int, int, int]:
        """Data, tensor and pipeline ranks."""
        return self.data, self.tensor, self.pipeline

    @property
    def text(self) -> str:
        """``data 8 x tensor 4 x pipeline 2, micro-batch 1, amp-bf16`` with what else is not usual."""
        more = [
            f"{self.recomputation} recomputation" if self.recomputation != "none" else "",
            "ZeRO 1" if self.zero else "",
            f"{self.virtual_stages} virtual stages" if self.virtual_stages > 1 else "",
            "sequence parallel" if self.sequence_parallel else "",
        ]
        degrees = f"data {self.data} x tensor {self.tensor} x pipeline {self.pipeline}"
        return ", ".join(part for part in (degrees, f"micro-batch {self.micro_batch}", self.precision, *more) if part)
