"""What the backend ``occupancy`` answers: the same as ``epochcast predict-model occupancy --json``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from .checked_models import Told


class Interval(Told):
    """A prediction, and the bounds between which nine of ten trainings of new architectures are."""

    value: float
    low: float | None
    high: float | None


class Training(Told):
    """A training before it runs; null where the fit cannot know."""

    sm_occupancy: Annotated[Interval | None, Field(description="As DCGM reads it, 0 to 1.")]
    sm_active: Annotated[Interval | None, Field(description="SM activity as DCGM reads it, 0 to 1.")]
    peak_memory: Annotated[Interval | None, Field(description="Of the device as nvidia-smi shows it, bytes.")]
    out_of_memory: Annotated[float | None, Field(description="Probability that the memory is too small, 0 to 1.")]


class Modelled(Told):
    """A step of inference as its launches are modelled; nothing of it is measured."""

    mean: Annotated[float, Field(description="Occupancy, mean over launches, 0 to 1.")]
    time_mean: Annotated[float, Field(description="Weighted by the kernels' time.")]
    max: float
    kernels: int
    step_s: float
    nvml_utilisation: float
    memory_bytes: float
    assumed: Annotated[float, Field(description="Share of the launches whose configuration no trace shows.")]
    fits: Annotated[bool, Field(description="Into the GPU's memory.")]


class Filled(Told):
    """A GPU at one batch."""

    gpu: str
    batch: int
    training: Training
    modelled: Modelled


class BestBatch(Told):
    """What a sweep over batches of one GPU found."""

    gpu: str
    highest: float
    highest_at: int
    smallest: Annotated[int, Field(description="The smallest batch that is as good.")]
    largest: int
    bound_by_memory: bool


class Errors(Told):
    """How far off a label's predictions are on architectures that the fit left out."""

    rows: int
    mape: Annotated[float, Field(description="Per cent.")]
    factor: Annotated[float, Field(description="Nine of ten labels are within predicted / factor to predicted x factor.")]


class FittedModel(Told):
    """What a fitted model rests on."""

    model: str
    settings: dict[str, Any]
    gpus: list[str]
    rows: Annotated[dict[str, int], Field(description="Fitted trainings by label.")]
    errors: dict[str, Errors]


class OccupancyAnswer(Told):
    """What training a network takes of a GPU."""

    network: str
    sizes: dict[str, int]
    precision: str
    nodes: int
    edges: int
    unknown_operators: dict[str, int]
    model: FittedModel
    predictions: list[Filled]
    batches: Annotated[list[BestBatch], Field(description="Of a sweep, one per GPU.")]
    notes: list[str]
