"""The answer about a convolutional network: figures, and their text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from epochcast.analyzer.backends.convmeter.predictor import Fitted, Known
from epochcast.analyzer.backends.convmeter.scaling import TrainingMemory
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins.answer import Answer, AnswerPart, Rented
from epochcast.analyzer.plugins.chart import Chart, Line
from epochcast.analyzer.tables import seconds_text, table
from epochcast.analyzer.words import count, money, number, with_prefix

RATE_OF = {"step": "training", "inference": "inference"}
"""Names of throughput by phase."""


class Estimate(AnswerPart):
    """A figure with the ends of a 90 % interval."""

    value: float
    low: Known
    high: Known


class EpochCost(Rented):
    """The cheapest way to rent the devices, on demand and whole instances."""

    usd_per_epoch: float


class Step(AnswerPart):
    """Steps at one batch on one number of devices."""

    batch: Annotated[int, Field(description="Images per device.")]
    devices: int
    nodes: int
    phases: Annotated[
        dict[str, Estimate],
        Field(
            description="Seconds of inference, forward, backward, update, step, as far as they are fitted. On several devices "
            "update has the exchange of gradients that the backward pass does not hide."
        ),
    ]
    images_per_second: Annotated[dict[str, Estimate], Field(description="training, inference.")]
    memory: TrainingMemory | None
    epoch_seconds: float | None
    cost: EpochCost | None
    speed_up: Annotated[float | None, Field(description="Over the fewest devices; null where there is one number.")] = None
    efficiency: float | None = None

    @property
    def main_phase(self) -> str:
        """The phase that throughput is about: training where it is predicted, else inference."""
        return "step" if "step" in self.phases else "inference"

    @property
    def rate(self) -> Estimate:
        """Throughput in that phase."""
        return self.images_per_second[RATE_OF[self.main_phase]]


class ConvMeterAnswer(Answer):
    """A network's steps, and where more devices and larger batches stop paying."""

    network: str
    image_size: int
    device: str
    gpu: Annotated[str | None, Field(description="The device in the GPU catalogue; null for what is not in it.")]
    precision: Annotated[str, Field(description="Of the numbers; ending in -nhwc: tensors are laid out channels last.")]
    recipe: str
    assumed: Annotated[list[str], Field(description="What was not given or not measured, a sentence each.")]
    fitted: Annotated[dict[str, Fitted], Field(description="By phase, on the device that was measured.")]
    metrics: Annotated[dict[str, float], Field(description="Of one image: flops, conv_inputs, conv_outputs, weights, layers.")]
    predictions: list[Step]
    global_batch: Annotated[int | None, Field(description="That all devices share (strong scaling); null: each has a batch.")]
    turning_points: Annotated[
        dict[int, int | None],
        Field(description="Of several numbers of devices that beyond which more bring little, by batch; null: the last pays."),
    ]
    large_enough: Annotated[
        dict[int, int],
        Field(description="Of several batches the smallest within 5 % of the highest throughput, by number of devices."),
    ]
    notes: list[str]

    @property
    def text(self) -> str:
        """A line for each step, and where more stops paying."""
        layout = "channels last" if self.precision.endswith("-nhwc") else "channels first"
        head = [
            f"{self.network} at {self.image_size} x {self.image_size} on {self.device}, {self.precision} ({layout})",
            *self.assumed,
            f"{with_prefix(self.metrics['flops'], 'FLOPs')} per image, {with_prefix(self.metrics['weights'], '')} weights, "
            f"{self.metrics['layers']:.0f} convolutions and dense layers",
        ]
        steps = self.predictions
        parts = [
            _grid(steps),
            "\n".join(self._pays(batch, devices) for batch, devices in self.turning_points.items()),
            "\n".join(self._enough(devices, batch) for devices, batch in self.large_enough.items()),
            _prices(steps, self.gpu),
        ]
        return "\n\n".join(part for part in ("\n".join(head), *parts, rests_on(self.fitted)) if part)

    def _pays(self, batch: int, turning_point: int | None) -> str:
        held = f"strong scaling, global batch {batch}" if self.global_batch else f"weak scaling, batch {batch} on each"
        if turning_point is None:
            last = count(self.predictions[-1].devices, "device")
            return f"{held}: {last}, the most requested, still pay off (10 % more throughput per doubling)"
        beyond = count(turning_point, "device")
        return f"{held}: beyond {beyond} no requested number brings 10 % more throughput per doubling"

    def _enough(self, devices: int, batch: int) -> str:
        on = "" if devices == 1 else f" on {count(devices, 'device')}"
        if batch == max(step.batch for step in self.predictions):
            return f"throughput{on} still grows with the batch at {batch}, the largest requested"
        return f"smallest batch within 5 % of the highest throughput here{on}: {batch}"

    @property
    def chart(self) -> Chart:
        """Throughput by devices, a panel per batch; by batch where there is one number of devices."""
        steps = self.predictions
        if len(steps) < 2:
            raise InputError("--plot draws throughput by devices or by batch; give several --devices or several --batch")
        if not self.turning_points:
            by_batch = {self.network: _lines([step.batch for step in steps], steps)}
            return Chart(by_batch, "images per device and step", "images per second")
        panels = {}
        for batch in self.turning_points:
            own = [step for step in steps if self.global_batch or step.batch == batch]
            panels[f"{self.network}, batch {batch}"] = _lines([step.devices for step in own], own)
        return Chart(panels, "devices", "images per second")


def rests_on(fitted: Mapping[str, Fitted]) -> str:
    """A table of what each phase was fitted on, with its error on networks that were left out."""
    rows = [
        (
            name,
            str(fit.points),
            str(fit.networks),
            " to ".join(dict.fromkeys(f"{end:.0f}" for end in fit.ranges["batch"])),
            "-" if mape is None else f"{mape:.1f} %",
            "-" if factor is None else f"x {1 / factor:.2f} to x {factor:.2f}",
        )
        for phase, fit in fitted.items()
        for name, mape, factor in (
            (phase, fit.mape, fit.factor),
            *[(f"{phase}, attention", fit.attention_mape, fit.attention_factor)] * (fit.attention_factor is not None),
        )
    ]
    sources = [f"{phase} measured by: {fit.source}" for phase, fit in fitted.items() if fit.source]
    header = ("fitted", "points", "networks", "batches", "error if left out", "90 % interval")
    return "\n".join([table(header, rows), *sources])


def _grid(steps: Sequence[Step]) -> str:
    """A line for each batch and number of devices."""
    first = steps[0]
    columns = {"devices": [str(step.devices) for step in steps]}
    if any(step.nodes > 1 for step in steps):
        columns["nodes"] = [str(step.nodes) for step in steps]
    columns["batch"] = [str(step.batch) for step in steps]
    columns |= {phase: [seconds_text(step.phases[phase].value) for step in steps] for phase in first.phases}
    if first.main_phase in first.phases:
        columns[f"{RATE_OF[first.main_phase]} images/s"] = [number(step.rate.value) for step in steps]
        columns["90 % interval"] = [_ends(step.rate) for step in steps]
    if first.speed_up is not None:
        columns["speed-up"] = [f"{step.speed_up:.2f}" for step in steps]
        columns["efficiency"] = [f"{100 * (step.efficiency or 0):.0f} %" for step in steps]
    if first.epoch_seconds is not None:
        columns["epoch"] = [seconds_text(step.epoch_seconds) for step in steps]
    if any(step.cost for step in steps):
        columns["cost per epoch"] = [money(step.cost.usd_per_epoch if step.cost else None) for step in steps]
    if first.memory is not None:
        columns["memory"] = [step.memory.text if step.memory else "-" for step in steps]
    return table(list(columns), list(zip(*columns.values(), strict=True)))


def _lines(places: Sequence[float], steps: Sequence[Step]) -> list[Line]:
    """Throughput where it fits into the memory."""
    rates = [step.rate for step in steps]
    values = [None if step.memory and step.memory.fits is False else step.rate.value for step in steps]
    return [Line("predicted", places, values, [rate.low for rate in rates], [rate.high for rate in rates])]


def _prices(steps: Sequence[Step], gpu: str | None) -> str:
    """The instances behind the cost, or why there is no cost."""
    if steps[0].epoch_seconds is None:
        return ""
    costs = [step.cost for step in steps if step.cost]
    if costs:
        return f"cost: on {'; '.join(dict.fromkeys(cost.where for cost in costs))} (price of {costs[0].price_of})"
    if gpu is None:
        return "cost: the GPU catalogue does not have the device"
    return f"cost: no on-demand price of a {gpu} is known"


def _ends(rate: Estimate) -> str:
    return "-" if rate.low is None or rate.high is None else f"{number(rate.low)} to {number(rate.high)}"
