"""What the backend ``convmeter`` answers: the same as ``epochcast predict-model convmeter --json``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ...plugins.answer import AnswerPart, Rented


class Fitted(AnswerPart):
    """What a phase rests on."""

    form: str
    points: int
    networks: int
    batches: Annotated[list[float], Field(description="Least and largest that were measured, images per device.")]
    mape: Annotated[float | None, Field(description="Per cent, of networks that were left out; null: too few to tell.")]
    factor: Annotated[float | None, Field(description="Within which of the seconds nine of ten are.")]
    source: Annotated[str, Field(description="The table and what it was measured with; empty: not known.")]


class Metrics(AnswerPart):
    """Of one image."""

    flops: float
    conv_inputs: float
    conv_outputs: float
    weights: float
    layers: float


class Seconds(AnswerPart):
    """With the ends of a 90 % interval."""

    seconds: float
    low: float | None
    high: float | None


class Rate(AnswerPart):
    """Images per second, with the ends of a 90 % interval."""

    value: float
    low: float | None
    high: float | None


class TrainingMemory(AnswerPart):
    """Bytes of a training step on one device, as a range."""

    low: float
    high: float
    capacity: float | None
    fits: Annotated[bool | None, Field(description="Null where it is not certain.")]


class EpochCost(Rented):
    """The cheapest way to rent the devices, on demand and whole instances."""

    usd_per_epoch: float
    usd: float | None


class Step(AnswerPart):
    """Steps at one batch on one number of devices."""

    batch: Annotated[int, Field(description="Images per device.")]
    devices: int
    nodes: int
    phases: Annotated[dict[str, Seconds], Field(description="inference, forward, backward, update, step: those fitted.")]
    images_per_second: Annotated[dict[str, Rate], Field(description="training, inference.")]
    memory: TrainingMemory | None
    epoch_seconds: float | None
    seconds: Annotated[float | None, Field(description="Of all epochs.")]
    cost: EpochCost | None


class Scaling(AnswerPart):
    """What more devices bring."""

    mode: Literal["weak", "strong"]
    batch: int | None
    devices: list[int]
    images_per_second: list[float | None]
    speed_up: list[float | None]
    efficiency: list[float | None]
    turning_point: Annotated[int | None, Field(description="Devices from which on more bring little.")]
    fastest: int | None
    cheapest: int | None
    knee: int | None
    front: list[int] | None


class Batches(AnswerPart):
    """From which batch on a larger one brings no more throughput."""

    devices: int
    large_enough: int | None
    largest: int


class Block(AnswerPart):
    """A block of the network; the last one, without a name, is the whole."""

    block: str
    metrics: Metrics
    phases: dict[str, Seconds]


class ConvMeterAnswer(AnswerPart):
    """A network's steps; either ``predictions`` with ``scaling`` and ``batches``, or ``blocks``."""

    network: str
    image_size: int
    device: str
    precision: str
    fitted: Annotated[dict[str, Fitted], Field(description="By phase.")]
    metrics: Metrics | None = None
    gpu: str | None = None
    predictions: list[Step] | None = None
    scaling: list[Scaling] | None = None
    batches: list[Batches] | None = None
    batch: int | None = None
    blocks: list[Block] | None = None
    notes: list[str]
