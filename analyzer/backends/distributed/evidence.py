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

from epochcast.analyzer.backends.distributed.fitted_model import DistributedModel
from epochcast.analyzer.backends.distributed.iteration import PreparedJob
from epochcast.analyzer.backends.distributed.models.graph import Graph
from epochcast.analyzer.backends.distributed.precision import Precision, precision_named
from epochcast.analyzer.backends.distributed.prediction import EXCHANGES, Iteration
from epochcast.regressor import Gpu

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


@cache
def held_out() -> tuple[HeldOutErrors, ...]:
    """All rows of the table."""
    numbers = {"bits": int, "n": int, "groups": int, "mape": float, "roofline": float, "factor": float}
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return tuple(HeldOutErrors(**{name: numbers.get(name, str)(text) for name, text in row.items()}) for row in rows)


def kind_of(graph: Graph) -> Kind:
    """Where most of the FLOPs are."""
    flops: dict[bool, float] = {True: 0.0, False: 0.0}
    for block in (graph.before, *graph.blocks, graph.after):
        for operator in block.operators:
            flops[operator.kind == "convolution"] += operator.flops
    return "convolutions" if flops[True] > flops[False] else "products"


def bits_of(precision: Precision) -> int:
    """Bits of the operands of matrix products: TF32's are FP32 numbers in memory; FP8's count as 16, which were measured."""
    return 32 if precision.products in ("float32", "tf32", "float64") else 16


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
    measured_here: bool, fitted: DistributedModel, gpu: Gpu, prepared: PreparedJob, graph: Graph, iteration: Iteration
) -> Evidence:
    """Evidence for an answer of the recipe ``default``.

    Args:
        measured_here: whether the operators themselves were measured on the GPU.
        fitted: the efficiencies and operator times in use.
        gpu: of the answer.
        prepared: the job on its cluster.
        graph: of its model.
        iteration: the answer.
    """
    job, precision = prepared.job, precision_named(prepared.job.precision)
    kind, bits = kind_of(graph), bits_of(precision)
    covered: list[str] = []
    missing: list[str] = []
    if measured_here:
        row = row_of("operators", 0, "measured")
    else:
        by_operators = bits == 32
        known = fitted.operators.measured(gpu.name, precision.products) if by_operators else gpu.name in fitted.gpus
        row = row_of(kind, bits, "measured" if known else "new")
        if not known:
            covered.append(f"no {'operator' if by_operators else 'training'} in {precision.name} was measured on {gpu.name}")
    if precision.fp8:
        missing.append("no training in FP8 was measured, only products")
    if job.gpus > 1 and (kind, bits) != ("products", 16):
        missing.append(f"no iteration in {job.precision} on several GPUs was measured")
    if job.context > 1:
        missing.append("no training with context parallelism was measured")
    if kind == "convolutions":
        covered.append("convolutions were measured on one GPU; `epochcast predict-model convmeter` is more accurate")
    source = "measured operators of this GPU" if measured_here else "learned from measured operators"
    sentences = [f"operator times: {source}", _rests_on(row)]
    variance = row.variance + len(missing) * _unmeasured()
    exchanges = row_of("exchanges", 0, "measured" if prepared.cluster.measured else "new")
    if job.gpus > 1:
        if prepared.cluster.measured:
            sentences.append(_rests_on(exchanges))
        else:
            covered.append(f"all-reduces over {prepared.cluster.intra.name} were not measured; {_rests_on(exchanges)}")
            share = sum(getattr(iteration, name) for name in EXCHANGES) / iteration.seconds
            variance += share**2 * exchanges.variance
    return Evidence(
        factor=math.exp(math.sqrt(variance)),
        exchange_factor=math.exp(math.sqrt(variance + exchanges.variance)),
        rests_on=tuple(sentences),
        not_measured=(*covered, *missing, *_size(fitted, graph, job.tensor)),
    )


def _size(fitted: DistributedModel, graph: Graph, tensor: int) -> tuple[str, ...]:
    """A sentence where the model is larger or smaller than those that the efficiencies were fitted on."""
    if fitted.parameters is None:
        return ()
    size, (low, high) = graph.parameters(tensor), fitted.parameters
    if low <= size <= high:
        return ()
    text = " to ".join(f"{number / 1e9:.3g}" for number in (low, high))
    return (f"the model has {size / 1e9:.3g} billion parameters; measured models had {text}",)


def row_of(kind: Kind, bits: int, gpu: Literal["measured", "new"]) -> HeldOutErrors:
    """The row of a GPU that was measured or not; where the table has but one of them, that."""
    rows = {row.gpu: row for row in held_out() if (row.kind, row.bits) == (kind, bits)}
    return rows.get(gpu) or next(iter(rows.values()))


def _unmeasured() -> float:
    """Variance that a GPU adds that was not measured, as the operators of 32 bits show it."""
    new, measured = (row_of("products", 32, gpu) for gpu in ("new", "measured"))
    return new.variance - measured.variance


def _rests_on(row: HeldOutErrors) -> str:
    sheets = f" (by data sheets {row.roofline:.1f} %)" if row.roofline > row.mape else ""
    return f"{row.n} {row.measured}, {row.left_out}, were {row.mape:.1f} % off on average{sheets}"
