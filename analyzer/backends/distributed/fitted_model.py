"""What is fitted, as a model's folder: efficiencies and operator times; and what an answer rests on: errors on measurements
that a fit left out, and the interval.

``held_out.csv`` is written by ``python -m lab.speed.distributed.held_out --write``, which states the protocol of each row. An
answer's half-width is the quantile of its row; each thing that no row covers adds what a GPU that was not measured adds, as
variances add up.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from epochcast.analyzer.backends.distributed.operator_time.learned import FamilyModel, OperatorModel, Rates
from epochcast.regressor.model_folder import Manifest, load
from epochcast.regressor.trees import Trees

SHIPPED = Path(__file__).with_name("shipped")
"""By `lab/speed/distributed/fit_shipped.py`."""


@dataclass(frozen=True)
class Coefficients:
    """Efficiencies of trainings, dimensionless unless said. The defaults are the belief without any measured run.

    Attributes:
        products: seconds of matrix products and convolutions in a training per second that they take alone, where clocks do not
            fall.
        attention: the same of fused attention, whose kernels also differ by release and mask.
        throttled: the same once more in 16 bits and less on GPUs of compute capability 9 and more, whose products draw all the
            power that they may and were measured in short bursts.
        passes: the same of one-pass operators.
        gap: seconds from the end of one kernel to the next one's full speed.
        node_link: modelled speed that communication within a node reaches amid computation; what overlaps it passes 1.
        network: share of the line rate that communication between nodes reaches, many groups at once.
        optimizer: share of the memory bandwidth in the weight update.
        doubling: share of an iteration that each doubling of nodes adds, as all wait for the slowest.
    """

    products: float = 1.0
    attention: float = 1.0
    throttled: float = 1.15
    passes: float = 1.0
    gap: float = 3e-6
    node_link: float = 0.80
    network: float = 0.70
    optimizer: float = 0.85
    doubling: float = 0.01


class DistributedManifest(Manifest):
    """The whole of ``model.json``."""

    SCHEMA = "epochcast.distributed/v4"
    COMMAND = "fit distributed"

    coefficients: Coefficients
    fitted_on: dict[str, Any]
    operators: dict[str, Any]


@dataclass(frozen=True)
class DistributedModel:
    """What was fitted.

    Attributes:
        coefficients: the efficiencies.
        operators: operator times.
        gpus: on which runs were measured that set the efficiencies.
        parameters: of the smallest and the largest model among these runs.
    """

    coefficients: Coefficients
    operators: OperatorModel
    gpus: tuple[str, ...] = ()
    parameters: tuple[float, float] | None = None

    @classmethod
    def load(cls, folder: Path = SHIPPED) -> DistributedModel:
        """Read a fitted model, the shipped one unless another is named.

        Raises:
            InputError: a file is missing, damaged, or of another kind.
        """
        manifest, arrays = load(folder, DistributedManifest)
        state, on = manifest.operators, manifest.fitted_on
        families = {
            name: FamilyModel(Trees(**arrays[name]), {(rates.pop("gpu"), rates.pop("dtype")): Rates(**rates) for rates in kept})
            for name, kept in state["families"].items()
        }
        boards = {gpu: (board["tdp"], board["compute_capability"]) for gpu, board in state["boards"].items()}
        parameters = None if on["parameters"] is None else tuple(on["parameters"])
        return cls(manifest.coefficients, OperatorModel(families, boards), tuple(on["gpus"]), parameters)


TABLE = Path(__file__).with_name("held_out.csv")

Kind = Literal["products", "convolutions", "operators", "exchanges"]


@dataclass(frozen=True)
class HeldOutErrors:
    """Errors on measurements that were left out.

    Attributes:
        kind: of what was measured: iterations of models of ``products`` or of ``convolutions``, iterations by their own
            measured ``operators``, or ``exchanges`` (all-reduces).
        bits: of the operands of products, 16 or 32; 0 where that does not matter.
        gpu: ``measured`` or ``new``: whether the fit had trainings (of 32 bits: operators) of that GPU.
        n: measurements.
        groups: how many left together, one after the other.
        mape, roofline: mean absolute error of ours and of data sheets on the same rows, percent.
        factor: nine of ten take predicted / factor to predicted * factor.
        measured: what was measured, in words.
        left_out: how, in words.
    """

    kind: Kind
    bits: int
    gpu: Literal["measured", "new"]
    n: int
    groups: int
    mape: float
    roofline: float
    factor: float
    measured: str
    left_out: str

    @property
    def variance(self) -> float:
        """Square of the interval's half-width, of logarithms."""
        return math.log(self.factor) ** 2

    @property
    def text(self) -> str:
        """In a sentence."""
        sheets = f" (by data sheets {self.roofline:.1f} %)" if self.roofline > self.mape else ""
        return f"{self.n} {self.measured}, {self.left_out}, were {self.mape:.1f} % off on average{sheets}"


@cache
def _held_out() -> list[HeldOutErrors]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return TypeAdapter(list[HeldOutErrors]).validate_python(list(csv.DictReader(file)))


@dataclass(frozen=True)
class Evidence:
    """How sure an answer is, and why.

    Attributes:
        factor: nine of ten iterations take seconds / factor to seconds * factor; so do its parts, but for exchanges.
        exchange_factor: the same of communication.
        rests_on: sentences on what was measured.
        not_measured: sentences on what was not, and is assumed.
    """

    factor: float
    exchange_factor: float
    rests_on: tuple[str, ...]
    not_measured: tuple[str, ...]


def row_of(kind: Kind, bits: int, gpu: Literal["measured", "new"]) -> HeldOutErrors:
    """The row of a GPU that was measured or not; where the table has but one of them, that."""
    rows = {row.gpu: row for row in _held_out() if (row.kind, row.bits) == (kind, bits)}
    return rows.get(gpu) or next(iter(rows.values()))
