"""What an answer rests on: errors on measurements that a fit left out, the source that they favour, and the interval.

``held_out.csv`` is written by ``python -m lab.speed.distributed.held_out --write``, which states the protocol of each row. An
answer's half-width is the quantile of its row; each thing that no row covers adds what a GPU that was not measured adds, as
variances add up.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from epochcast.analyzer.backends.distributed.fitted_model import DistributedModel
from epochcast.analyzer.backends.distributed.graph import Graph
from epochcast.analyzer.backends.distributed.iteration import PreparedJob
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
        gpu: ``measured`` or ``new``: whether the fit had that GPU.
        source: of operator times.
        n: measurements.
        groups: how many left together, one after the other.
        mape, roofline: mean absolute error of the source and of data sheets on the same rows, percent.
        factor: nine of ten take predicted / factor to predicted * factor.
        measured: what was measured, in words.
        left_out: how, in words.
    """

    kind: Kind
    bits: int
    gpu: Literal["measured", "new"]
    source: str
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


def usual_source(fitted: DistributedModel, gpu: Gpu, precision: Precision, graph: Graph) -> str:
    """The source of operator times for a question: what was measured of this GPU and dtype, else the least held-out error."""
    if fitted.operators is not None and fitted.operators.measured(gpu.name, product_dtype(precision)):
        return "learned"
    rows = [row for row in held_out() if (row.kind, row.bits) == (kind_of(graph), bits_of(precision))]
    return min(rows, key=lambda row: row.mape).source


def kind_of(graph: Graph) -> Kind:
    """Where most of the FLOPs are."""
    flops: dict[bool, float] = {True: 0.0, False: 0.0}
    for block in (graph.before, *graph.blocks, graph.after):
        for operator in block.operators:
            flops[operator.kind == "convolution"] += operator.flops
    return "convolutions" if flops[True] > flops[False] else "products"


def product_dtype(precision: Precision) -> str:
    """Dtype of matrix products as operator corpora name it."""
    return "tf32" if precision.tf32 else precision.autocast or precision.weights


def bits_of(precision: Precision) -> int:
    """Bits of the operands of matrix products in memory; TF32's are FP32 numbers."""
    return 16 if product_dtype(precision) in ("float16", "bfloat16") else 32


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
    source: str, fitted: DistributedModel, gpu: Gpu, prepared: PreparedJob, graph: Graph, iteration: Iteration
) -> Evidence:
    """Evidence for an answer of the recipe ``default``.

    Args:
        source: of operator times.
        fitted: the efficiencies and operator times in use.
        gpu: of the answer.
        prepared: the job on its cluster.
        graph: of its model.
        iteration: the answer.
    """
    job, precision = prepared.job, precision_named(prepared.job.precision)
    row, covered, missing = _closest(source, fitted, gpu, precision, graph)
    if job.gpus > 1 and (row.kind, row.bits) != ("products", 16):
        missing.append(f"no iteration in {job.precision} on several GPUs was measured")
    if source == "learned" and job.fused_kernels:
        missing.append("operator times are of single kernels: savings from fusion are not included")
    if row.kind == "convolutions":
        covered.append("convolutions are timed as matrix products; `epochcast predict-model convmeter` is more accurate")
    sentences = [f"operator times: {_SOURCES[source]}", _rests_on(row)]
    variance = row.variance + len(missing) * _unmeasured()
    exchanges = row_of("exchanges", 0, "measured" if prepared.cluster.measured else "new", "")
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
        not_measured=(*covered, *missing, *_size(fitted, graph, source, job.tensor)),
    )


_SOURCES: Mapping[str, str] = {
    "calibrated": "a roofline calibrated on measured iterations",
    "learned": "learned from measured operators",
    "table": "measured operators of this GPU",
}


def _closest(
    source: str, fitted: DistributedModel, gpu: Gpu, precision: Precision, graph: Graph
) -> tuple[HeldOutErrors, list[str], list[str]]:
    """The row most like the question; sentences on what was not measured that the row covers, and on what it does not."""
    if source == "table":
        return row_of("operators", 0, "measured", "profile"), [], []
    learned = source == "learned"
    known = fitted.operators is not None and fitted.operators.measured(gpu.name, product_dtype(precision))
    if not learned:
        known = gpu.name in fitted.gpus
    row = row_of(kind_of(graph), bits_of(precision), "measured" if known else "new", source)
    covered: list[str] = []
    missing: list[str] = []
    if not known:
        what = f"operator of {gpu.name} in {precision.name}" if learned else f"iteration on {gpu.name}"
        (covered if row.gpu == "new" else missing).append(f"no {what} was measured")
    if not learned and precision.name not in fitted.precisions:
        measured = " and ".join(fitted.precisions) or "none"
        missing.append(f"no iteration in {precision.name} was measured (measured: {measured})")
    return row, covered, missing


def _size(fitted: DistributedModel, graph: Graph, source: str, tensor: int) -> tuple[str, ...]:
    """A sentence where the model is larger or smaller than those that the efficiencies were fitted on."""
    if source != "calibrated" or fitted.parameters is None:
        return ()
    size, (low, high) = graph.parameters(tensor), fitted.parameters
    if low <= size <= high:
        return ()
    text = " to ".join(f"{number / 1e9:.3g}" for number in (low, high))
    return (f"the model has {size / 1e9:.3g} billion parameters; measured models had {text}",)


def row_of(kind: Kind, bits: int, gpu: Literal["measured", "new"], source: str) -> HeldOutErrors:
    """The row of a GPU that was measured or not; where the table has but one of them, that."""
    rows = {row.gpu: row for row in held_out() if (row.kind, row.bits, row.source) == (kind, bits, source)}
    return rows.get(gpu) or next(iter(rows.values()))


def _unmeasured() -> float:
    """Variance that a GPU adds that was not measured: of learned operator times, the only ones on several GPUs."""
    new, measured = (row_of("products", 32, gpu, "learned") for gpu in ("new", "measured"))
    return new.variance - measured.variance


def _rests_on(row: HeldOutErrors) -> str:
    sheets = f" (by data sheets {row.roofline:.1f} %)" if row.roofline > row.mape else ""
    return f"{row.n} {row.measured}, {row.left_out}, were {row.mape:.1f} % off on average{sheets}"
