"""What an answer rests on: errors on measurements that a fit left out, and the interval.

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
from typing import Literal

from pydantic import TypeAdapter

from epochcast.analyzer.backends.distributed.answer import Iteration
from epochcast.analyzer.backends.distributed.fitted_model import DistributedModel
from epochcast.analyzer.backends.distributed.iteration import PreparedJob
from epochcast.analyzer.backends.distributed.models.graph import Graph
from epochcast.analyzer.backends.distributed.plan.job import precision_named

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


def evidence_of(
    measured_here: bool, fitted: DistributedModel, prepared: PreparedJob, graph: Graph, iteration: Iteration
) -> Evidence:
    """Evidence for an answer of the recipe ``default``.

    Args:
        measured_here: whether the operators themselves were measured on the GPU.
        fitted: the efficiencies and operator times in use.
        prepared: the job on its cluster.
        graph: of its model.
        iteration: the answer.
    """
    job, gpu, precision = prepared.job, prepared.cluster.gpu, precision_named(prepared.job.precision)
    operators = [operator for block in graph.parts for operator in block.operators]
    convolved = sum(operator.flops for operator in operators if operator.kind == "convolution")
    kind: Kind = "convolutions" if convolved > sum(operator.flops for operator in operators) / 2 else "products"
    # TF32's operands are FP32 numbers in memory; FP8's count as 16, which were measured.
    bits = 32 if precision.products in ("float32", "tf32") else 16
    covered: list[str] = []
    missing: list[str] = []
    if measured_here:
        row = row_of("operators", 0, "measured")
    else:
        known = fitted.operators.measured(gpu.name, precision.products) if bits == 32 else gpu.name in fitted.gpus
        row = row_of(kind, bits, "measured" if known else "new")
        if not known:
            covered.append(f"no {'operator' if bits == 32 else 'training'} in {precision.name} was measured on {gpu.name}")
    if precision.fp8:
        missing.append("no training in FP8 was measured, only products")
    if job.gpus > 1 and (kind, bits) != ("products", 16):
        missing.append(f"no iteration in {job.precision} on several GPUs was measured")
    if job.context > 1:
        missing.append("no training with context parallelism was measured")
    if kind == "convolutions":
        covered.append("convolutions were measured on one GPU; `epochcast predict-model convmeter` is more accurate")
    source = "measured operators of this GPU" if measured_here else "learned from measured operators"
    rests_on = [f"operator times: {source}", row.text]
    # What an unmeasured thing adds, as the operators of 32 bits show it of a GPU.
    unmeasured = row_of("products", 32, "new").variance - row_of("products", 32, "measured").variance
    variance = row.variance + len(missing) * unmeasured
    exchanges = row_of("exchanges", 0, "measured" if prepared.cluster.measured else "new")
    if job.gpus > 1:
        if prepared.cluster.measured:
            rests_on.append(exchanges.text)
        else:
            covered.append(f"all-reduces over {prepared.cluster.intra.name} were not measured; {exchanges.text}")
            variance += (iteration.parts.exchanges / iteration.seconds) ** 2 * exchanges.variance
    if fitted.parameters is not None:
        size, (low, high) = graph.parameters(job.tensor), fitted.parameters
        if not low <= size <= high:
            fitted_on = f"{low / 1e9:.3g} to {high / 1e9:.3g}"
            missing.append(f"the model has {size / 1e9:.3g} billion parameters; measured models had {fitted_on}")
    return Evidence(
        factor=math.exp(math.sqrt(variance)),
        exchange_factor=math.exp(math.sqrt(variance + exchanges.variance)),
        rests_on=tuple(rests_on),
        not_measured=(*covered, *missing),
    )


def row_of(kind: Kind, bits: int, gpu: Literal["measured", "new"]) -> HeldOutErrors:
    """The row of a GPU that was measured or not; where the table has but one of them, that."""
    rows = {row.gpu: row for row in _held_out() if (row.kind, row.bits) == (kind, bits)}
    return rows.get(gpu) or next(iter(rows.values()))
