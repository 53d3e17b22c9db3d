"""What is answered about training a network: figures, and the text of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins.answer import Answer, AnswerPart
from epochcast.analyzer.plugins.chart import Chart, Line
from epochcast.analyzer.tables import percent, table
from epochcast.analyzer.words import number

WITHIN = 0.05
"""How far below the best, relative, still counts as as good: predictions are not closer, and curves are flat at their end."""

LABELS = {"sm_occupancy": "SM occupancy", "sm_active": "SM activity", "peak_memory": "peak memory"}


class Estimate(AnswerPart):
    """A figure with the ends between which nine of ten like it are."""

    value: float
    low: float
    high: float
    basis: Annotated[
        Literal["measured", "modelled"],
        Field(description="Fitted on measured trainings, or modelled from launches, limits of the SM and shapes."),
    ]


class Filled(AnswerPart):
    """What a training takes of a GPU at one batch."""

    gpu: str
    batch: int
    sm_occupancy: Annotated[Estimate, Field(description="As DCGM reads it, 0 to 1.")]
    sm_active: Annotated[Estimate, Field(description="SM activity as DCGM reads it, 0 to 1.")]
    peak_memory: Annotated[Estimate, Field(description="Of the device as nvidia-smi shows it, bytes.")]
    out_of_memory: Annotated[
        float | None, Field(description="Probability that the memory is too small; null where it is modelled.")
    ]
    fits: Annotated[bool | None, Field(description="Into the GPU's memory; null: the range has both.")]

    @property
    def basis(self) -> str:
        """Of all its figures."""
        return " and ".join(sorted({getattr(self, label).basis for label in LABELS}))


class Errors(AnswerPart):
    """How far off a label's predictions are on architectures that the fit left out."""

    rows: int
    mape: Annotated[float, Field(description="Per cent.")]
    factor: Annotated[float, Field(description="Nine of ten labels are within predicted / factor to predicted x factor.")]


class FittedModel(AnswerPart):
    """What a fitted model rests on."""

    gpus: list[str]
    rows: Annotated[dict[str, int], Field(description="Fitted trainings by label.")]
    errors: dict[str, Errors]

    @property
    def text(self) -> str:
        """In two lines."""
        rows = ", ".join(f"{LABELS[label]} {rows}" for label, rows in self.rows.items())
        errors = ", ".join(f"{LABELS[label]} {errors.mape:.1f} %" for label, errors in self.errors.items())
        return (
            f"measured: boosted trees, fitted on trainings on {', '.join(self.gpus)} ({rows})\n"
            f"mean error on left-out architectures: {errors or 'unknown, too few'}"
        )


class OccupancyAnswer(Answer):
    """What training a network takes of a GPU."""

    network: str
    sizes: dict[str, int]
    precision: str
    nodes: int
    unknown_operators: dict[str, int]
    model: FittedModel
    predictions: list[Filled]
    smallest: Annotated[
        dict[str, int], Field(description="Of a sweep the smallest batch within 5 % of the highest SM occupancy, by GPU.")
    ]
    notes: list[str]

    @property
    def text(self) -> str:
        """A table, and what the figures rest on."""
        sizes = [f"{name.replace('_', ' ')} {value}" for name, value in self.sizes.items()]
        parts = [
            f"{', '.join([self.network, *sizes, self.precision])}: {self.nodes} operators",
            _table_of(self.predictions),
            "\n".join(
                f"smallest batch within {100 * WITHIN:.0f} % of the highest SM occupancy on {gpu}: {batch}, of 1 to "
                f"{max(row.batch for row in self.predictions if row.gpu == gpu)}"
                for gpu, batch in self.smallest.items()
            ),
            self.model.text if any("measured" in row.basis for row in self.predictions) else "",
        ]
        return "\n\n".join(part for part in parts if part)

    @property
    def chart(self) -> Chart:
        """Occupancy and activity by batch, a panel per GPU."""
        if len({row.batch for row in self.predictions}) < 2:
            raise InputError("--plot draws occupancy by batch; give --sweep-batches or several --batch")
        panels = {}
        for gpu in dict.fromkeys(row.gpu for row in self.predictions):
            rows = [row for row in self.predictions if row.gpu == gpu]
            lines = [_line(label, rows) for label in ("sm_occupancy", "sm_active")]
            if smallest := self.smallest.get(gpu):
                lines.append(Line(f"smallest batch within {100 * WITHIN:.0f} % of the highest", [smallest]))
            panels[f"{self.network} on {gpu}, {self.precision}"] = lines
        return Chart(panels, "batch size", unit="%")


def _line(label: str, rows: list[Filled]) -> Line:
    """A label by batch, of one GPU."""
    figures: list[Estimate] = [getattr(row, label) for row in rows]
    modelled = figures[0].basis == "modelled"
    return Line(
        f"{LABELS[label]}{' (modelled)' if modelled else ''}",
        [row.batch for row in rows],
        [figure.value for figure in figures],
        [figure.low for figure in figures],
        [figure.high for figure in figures],
        assumed=modelled,
    )


def _table_of(rows: list[Filled]) -> str:
    header = ["GPU", "batch", *(cell for label in LABELS.values() for cell in (label, "90 % range")), "fits", "basis"]
    lines = []
    for row in rows:
        shown = ((row.sm_occupancy, percent), (row.sm_active, percent), (row.peak_memory, _gibibytes))
        figures = [cell for one, text in shown for cell in (text(one.value), f"{text(one.low)} to {text(one.high)}")]
        fits = {True: "yes", False: "no", None: "unsure"}[row.fits]
        lines.append((row.gpu, str(row.batch), *figures, fits, row.basis))
    return table(header, lines)


def _gibibytes(size: float) -> str:
    return f"{number(size / 2**30)} GiB"
