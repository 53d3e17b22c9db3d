"""What is answered about training a network: figures, and the text of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import Field

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins.answer import Answer, AnswerPart
from epochcast.analyzer.plugins.chart import Chart, Line
from epochcast.analyzer.tables import percent, seconds_text, table
from epochcast.analyzer.words import number

WITHIN = 0.05
"""How far below the best, relative, still counts as as good: predictions are not closer, and curves are flat at their end."""

LABEL_NAMES = {"sm_occupancy": "SM occupancy", "sm_active": "SM activity", "peak_memory": "peak memory"}


class Interval(AnswerPart):
    """A prediction, and the bounds between which nine of ten trainings of new architectures are; null: not known."""

    value: float
    low: float | None
    high: float | None


class Training(AnswerPart):
    """A training before it runs; null where the fit cannot know."""

    sm_occupancy: Annotated[Interval | None, Field(description="As DCGM reads it, 0 to 1.")]
    sm_active: Annotated[Interval | None, Field(description="SM activity as DCGM reads it, 0 to 1.")]
    peak_memory: Annotated[Interval | None, Field(description="Of the device as nvidia-smi shows it, bytes.")]
    out_of_memory: Annotated[float | None, Field(description="Probability that the memory is too small, 0 to 1.")]


class Modelled(AnswerPart):
    """A step of inference as its launches are modelled; nothing in it is measured."""

    mean: Annotated[float, Field(description="Occupancy, mean over launches, 0 to 1.")]
    time_mean: Annotated[float, Field(description="Weighted by the kernels' time.")]
    max: float
    kernels: int
    step_s: float
    nvml_utilisation: float
    memory_bytes: float
    assumed: Annotated[float, Field(description="Share of the launches whose configuration is in no trace.")]
    fits: Annotated[bool, Field(description="Into the GPU's memory.")]


class Filled(AnswerPart):
    """A GPU at one batch."""

    gpu: str
    batch: int
    training: Training
    modelled: Modelled

    @property
    def occupancy(self) -> float:
        """SM occupancy of the training where that is known, else of the modelled launches, 0..1."""
        return self.training.sm_occupancy.value if self.training.sm_occupancy else self.modelled.time_mean

    @property
    def memory(self) -> float:
        """Bytes; of the training where that is known, else of the modelled inference."""
        return self.training.peak_memory.value if self.training.peak_memory else self.modelled.memory_bytes


class BestBatch(AnswerPart):
    """What a sweep over batches of one GPU found."""

    gpu: str
    highest: float
    highest_at: int
    smallest: Annotated[int, Field(description="The smallest batch with nearly the highest occupancy.")]
    largest: int
    bound_by_memory: bool

    @property
    def text(self) -> str:
        """In a sentence."""
        tried = "the most that memory holds" if self.bound_by_memory else "the most that was tried"
        highest = f"highest on {self.gpu}: {percent(self.highest)} at batch {self.highest_at}"
        if self.smallest == self.largest:
            return f"{highest}, {tried}: no smaller batch is within {100 * WITHIN:.0f} % of it"
        bounds = f"of 1 to {self.largest}, {tried}"
        return f"{highest}; smallest batch within {100 * WITHIN:.0f} % of it: {self.smallest} ({bounds})"


class Errors(AnswerPart):
    """How far off a label's predictions are on architectures that the fit left out."""

    rows: int
    mape: Annotated[float, Field(description="Per cent.")]
    factor: Annotated[float, Field(description="Nine of ten labels are within predicted / factor to predicted x factor.")]


class FittedModel(AnswerPart):
    """What a fitted model rests on."""

    model: str
    settings: dict[str, Any]
    gpus: list[str]
    rows: Annotated[dict[str, int], Field(description="Fitted trainings by label.")]
    errors: dict[str, Errors]

    @property
    def text(self) -> str:
        """In two lines."""
        rows = ", ".join(f"{LABEL_NAMES[label]} {rows}" for label, rows in self.rows.items())
        fitted = f"{self.model}, fitted on measured trainings on {', '.join(self.gpus)} ({rows})"
        if not self.errors:
            return f"{fitted}\nits error on other networks is unknown: too few networks to leave some out"
        errors = ", ".join(f"{LABEL_NAMES[label]} {errors.mape:.1f} %" for label, errors in self.errors.items())
        return f"{fitted}\nmean error on left-out architectures: {errors}"


class OccupancyAnswer(Answer):
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

    @property
    def text(self) -> str:
        """Tables of trainings, and of modelled launches where no SM occupancy is known."""
        sizes = [f"{name.replace('_', ' ')} {value}" for name, value in self.sizes.items()]
        title = ", ".join([self.network, *sizes, self.precision])
        trainings = [row for row in self.predictions if row.training.peak_memory]
        fallback = [row for row in self.predictions if not row.training.sm_occupancy]
        parts = [
            f"{title}: {self.nodes} operators, {self.edges} edges",
            f"training:\n{_trainings(trainings)}" if trainings else "",
            f"inference, expected PyTorch kernels (not measured):\n{_launches(fallback)}" if fallback else "",
            "\n".join(sweep.text for sweep in self.batches),
            self.model.text if trainings else "",
        ]
        return "\n\n".join(part for part in parts if part)

    @property
    def chart(self) -> Chart:
        """Occupancy and activity by batch, a panel per GPU."""
        if len({row.batch for row in self.predictions}) < 2:
            raise InputError("--plot draws occupancy by batch; give --sweep-batches or several --batch")
        best = {sweep.gpu: sweep.smallest for sweep in self.batches}
        panels = {}
        for gpu in dict.fromkeys(row.gpu for row in self.predictions):
            rows = [row for row in self.predictions if row.gpu == gpu]
            trainings = [row.training for row in rows]
            batches = [row.batch for row in rows]
            modelled = [row.modelled for row in rows]
            lines = _measured_lines(batches, trainings) if trainings[0].sm_occupancy else _modelled_lines(batches, modelled)
            if smallest := best.get(gpu):
                lines.append(Line(f"smallest batch within {100 * WITHIN:.0f} % of the highest", [smallest]))
            panels[f"{self.network} on {gpu}, {self.precision}"] = lines
        return Chart(panels, "batch size", unit="%")


def _measured_lines(batches: Sequence[int], trainings: Sequence[Training]) -> list[Line]:
    occupancies, activities = ([getattr(each, name) for each in trainings] for name in ("sm_occupancy", "sm_active"))
    ends = ([each and each.low for each in occupancies], [each and each.high for each in occupancies])
    return [
        Line("SM occupancy", batches, [each and each.value for each in occupancies], *ends),
        Line("SM activity", batches, [each and each.value for each in activities]),
    ]


def _modelled_lines(batches: Sequence[int], steps: Sequence[Modelled]) -> list[Line]:
    return [
        Line("occupancy (modelled)", batches, [step.time_mean for step in steps], assumed=True),
        Line("NVML utilisation (modelled)", batches, [step.nvml_utilisation for step in steps], assumed=True),
    ]


def _trainings(rows: Sequence[Filled]) -> str:
    header = ("GPU", "batch", "SM occupancy", "90 % interval", "SM activity", "peak memory", "90 % interval", "fits")
    lines = []
    for row in rows:
        training = row.training
        occupancy, activity, memory = training.sm_occupancy, training.sm_active, training.peak_memory
        fits = "yes" if (training.out_of_memory or 0.0) < 0.5 else "no"
        figures = (*_with_bounds(occupancy, percent), _with_bounds(activity, percent)[0], *_with_bounds(memory, _gibibytes))
        lines.append((row.gpu, str(row.batch), *figures, fits))
    return table(header, lines)


def _with_bounds(interval: Interval | None, text: Callable[[float], str]) -> tuple[str, str]:
    if interval is None:
        return "-", "-"
    low, high = interval.low, interval.high
    return text(interval.value), "-" if low is None or high is None else f"{text(low)} to {text(high)}"


def _launches(rows: Sequence[Filled]) -> str:
    header = ("GPU", "batch", "occupancy", "by time", "highest", "kernels", "step", "NVML", "memory")
    lines = []
    for row in rows:
        step = row.modelled
        memory = _gibibytes(step.memory_bytes) + ("" if step.fits else ", does not fit")
        others = (str(step.kernels), seconds_text(step.step_s), percent(step.nvml_utilisation), memory)
        lines.append((row.gpu, str(row.batch), *map(percent, (step.mean, step.time_mean, step.max)), *others))
    return table(header, lines)


def _gibibytes(size: float) -> str:
    return f"{number(size / 2**30)} GiB"
