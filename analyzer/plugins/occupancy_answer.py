"""What the backend ``occupancy`` answers: the same as ``epochcast predict-model occupancy --json``."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from .checked_models import Told


class Modelled(Told):
    """A step as its launches are modelled; nothing of it is measured."""

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
    occupancy: Annotated[float, Field(description="0 to 1.")]
    low: float | None
    high: float | None
    modelled: Modelled


class BestBatch(Told):
    """What a sweep over batches of one GPU found."""

    gpu: str
    highest: float
    highest_at: int
    smallest: Annotated[int, Field(description="The smallest batch that is as good.")]
    largest: int
    bound_by_memory: bool


class FittedModel(Told):
    """What a fitted model rests on."""

    rows: int
    gpus: list[str]
    networks: dict[str, int]
    model: str
    target: str
    labels: str
    settings: dict[str, Any]
    mape: float | None
    factor: float | None


class OccupancyAnswer(Told):
    """A network's occupancy."""

    labels: Annotated[str, Field(description="Where occupancies come from: modelled, launch_config or ncu.")]
    network: str
    sizes: dict[str, int]
    precision: str
    nodes: int
    edges: int
    unknown_operators: dict[str, int]
    model: FittedModel | None
    why: str
    predictions: list[Filled]
    batches: Annotated[list[BestBatch], Field(description="Of a sweep, one per GPU.")]
    notes: list[str]
