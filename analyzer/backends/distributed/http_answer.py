"""What the backend ``distributed`` answers: the same as ``epochcast predict-model distributed --json``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...plugins.answer import AnswerPart, Rented
from .graph import Extraction
from .job import Attention, Recomputation, ScheduleName


class Parts(AnswerPart):
    """What the seconds of an iteration are made of; they add up to it."""

    compute: Annotated[dict[str, float], Field(description="Seconds by kind of operator on the slowest rank.")]
    bubble: Annotated[float, Field(description="Seconds in which that rank waits for others of its pipeline.")]
    tensor_parallel: float
    data_parallel: float
    pipeline_parallel: float
    optimizer: float


class Memory(AnswerPart):
    """Bytes on the fullest GPU."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    capacity: float
    total: float
    fits: bool


class IterationCost(Rented):
    """The cheapest way to rent the GPUs, on demand and whole instances."""

    usd_per_iteration: float
    usd: Annotated[float | None, Field(description="Of all iterations; null where their number was not given.")]


class JobTold(AnswerPart):
    """The job, with what was not asked for filled in."""

    data: int
    tensor: int
    pipeline: int
    micro_batch: int
    global_batch: int
    sequence_length: int
    precision: str
    schedule: ScheduleName
    virtual_stages: int
    layers_per_stage: list[int] | None
    recomputation: Recomputation
    sequence_parallel: bool
    zero: Literal[0, 1]
    optimizer: Literal["adam", "sgd"]
    master_weights: bool
    attention: Attention
    fused_kernels: bool
    overlap: bool
    tensor_overlap: bool
    gpus: int
    micro_batches: int


class DistributedAnswer(AnswerPart):
    """One training iteration."""

    model: str
    operators: Annotated[str, Field(description="Source of operator times.")]
    graph: Annotated[Extraction, Field(description="How the operators were found: recorded, or by torch.fx.")]
    fits: bool
    verdict: Annotated[str, Field(description="Whether it fits into memory, in words.")]
    seconds: Annotated[float, Field(description="Of one iteration.")]
    low: Annotated[float, Field(description="Nine of ten such iterations take this or more.")]
    high: Annotated[float, Field(description="Nine of ten such iterations take this or less.")]
    iterations: int | None
    total_seconds: float | None
    samples_per_second: float
    tokens_per_second: float | None
    model_flops: float
    mfu: Annotated[
        float | None, Field(description="Share of the GPUs' peak that the model's operations make up; null on a CPU.")
    ]
    parts: Parts
    parts_low: Parts
    parts_high: Parts
    memory: Memory
    cost: Annotated[IterationCost | None, Field(description="Null where no price is known.")]
    gpu: Annotated[str, Field(description="Or the CPU that was measured.")]
    gpus: int
    gpus_per_node: int
    intra: str
    inter: str | None
    recipe: str
    job: JobTold
    evidence: Annotated[list[str], Field(description="What was measured that the answer rests on.")]
    assumptions: Annotated[list[str], Field(description="What was not given or not measured.")]
    notes: list[str]
