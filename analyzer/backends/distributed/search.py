"""Many ways to train at once: all that fit into the memory, the fastest or cheapest first, and the paper's Fig. 1, times by
precision and parallelism.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import Any, Literal

from epochcast.analyzer.backends.distributed.answer import Iteration, IterationPrediction, sentences
from epochcast.analyzer.backends.distributed.backend import Resolved
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration, available, precision_named, require
from epochcast.analyzer.backends.distributed.predictor import IterationPredictor
from epochcast.analyzer.backends.rent import price_notes
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins.answer import Answer
from epochcast.analyzer.plugins.chart import Chart, Line
from epochcast.analyzer.tables import seconds_text, table
from epochcast.analyzer.words import money
from epochcast.regressor import Gpu

_MOST, _MOST_IN_TEXT = 100, 10

Candidate = tuple[Gpu, TrainingConfiguration, Iteration]


@dataclass
class Search:
    """Every configuration that is possible.

    Attributes:
        predictor: of the model.
        template: what all have in common.
        given: degrees, ``micro_batch``, ``recomputation`` and ``zero`` that are not varied. Else degrees are all d x t x p of
            the GPUs, micro-batches all divisors of a data rank's share of the global batch up to the first that does not fit
            (memory grows with them), with the least recomputation and the fastest sharding that fits.
        precisions: empty: all that the GPU has.
        candidates: what fits.
        too_large: configurations that do not fit into memory; of larger micro-batches than one of them none was tried.
        refused: the first reason why others are impossible, by what is refused.
    """

    predictor: IterationPredictor
    template: TrainingConfiguration
    given: Mapping[str, Any] = field(default_factory=dict)
    precisions: Sequence[str] = ()
    candidates: list[Candidate] = field(default_factory=list, init=False)
    too_large: int = field(default=0, init=False)
    refused: dict[str, str] = field(default_factory=dict, init=False)

    def run(self, gpus: Sequence[tuple[Gpu, int]], progress: Callable[[int], object] = lambda fitting: None) -> None:
        """Predict every configuration on each (GPU, count).

        Raises:
            InputError: every configuration is impossible, with the first reason.
        """
        for gpu, count in gpus:
            try:
                for outline in self._outlines(gpu, count):
                    self._fill(gpu, outline)
                    progress(len(self.candidates))
            except InputError as error:
                if len(gpus) == 1:
                    raise
                self.refused.setdefault(f"{count} {gpu.name}", str(error))
        if not self.candidates and not self.too_large:
            raise InputError(next(iter(self.refused.values()), "the search has nothing to try; free a degree of parallelism"))

    def _outlines(self, gpu: Gpu, count: int) -> Iterator[TrainingConfiguration]:
        """Jobs of one sample per micro-batch, one for each precision and (d, t, p) that is possible at all."""
        self.predictor.cluster(gpu, count)
        for name in self.precisions:
            require(gpu, precision_named(name))
        for tensor, precision in product(self._tried("tensor", divisors(count)), self.precisions or available(gpu)):
            if f"{tensor} tensor ranks" in self.refused:
                continue
            unsplit = replace(self.template, data=1, pipeline=1, micro_batch=1, tensor=tensor, precision=precision)
            try:
                self.predictor.graphs.graph(unsplit)
            except InputError as error:
                self.refused[f"{tensor} tensor ranks"] = str(error)
                continue
            for pipeline in self._tried("pipeline", divisors(count // tensor)):
                for data in self._tried("data", [count // (tensor * pipeline)]):
                    try:
                        outline = replace(unsplit, data=data, pipeline=pipeline)
                        self.predictor.prepared(gpu, outline)
                    except InputError as error:
                        self.refused.setdefault(f"({data}, {tensor}, {pipeline})", str(error))
                    else:
                        yield outline

    def _fill(self, gpu: Gpu, outline: TrainingConfiguration) -> None:
        """Every micro-batch of an outline, with the least recomputation that fits."""
        choices = self._tried("recomputation", ("none", "selective", "full"))
        stages = (self.given["zero"],) if "zero" in self.given else None
        for micro_batch in self._tried("micro_batch", divisors(outline.global_batch // outline.data)):
            job = self.predictor.sharded(gpu, replace(outline, micro_batch=micro_batch), choices, stages)
            if not self.predictor.prepared(gpu, job).memory.fits:
                self.too_large += 1
                return
            self.candidates.append((gpu, job, self.predictor.iteration(gpu, job)))
            # What a smaller micro-batch had no room for, a larger one has not either.
            choices = choices[choices.index(job.recomputation) :]

    def _tried(self, name: str, values: Iterable[Any]) -> list[Any]:
        return [value for value in values if self.given.get(name, value) == value]


def divisors(number: int) -> list[int]:
    """Divisors, ascending."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


class SearchAnswer(Answer):
    """The configurations that fit, the best first."""

    model: str
    ranked_by: Literal["time", "cost"]
    fitting: int
    too_large: int
    refused: dict[str, str]
    iterations: int | None
    configurations: list[IterationPrediction]
    evidence: list[str]
    assumptions: list[str]
    notes: list[str]

    @property
    def status(self) -> int:
        """1 where none fits into memory."""
        return 0 if self.configurations else 1

    @property
    def text(self) -> str:
        """A table, and what its first row rests on."""
        if not self.configurations:
            return ""
        best = self.configurations[0]
        gpus = list(dict.fromkeys(row.gpu for row in self.configurations))
        counts = sorted({row.gpus for row in self.configurations})
        rows = [self._cells(row) for row in self.configurations[:_MOST_IN_TEXT]]
        different = {"gpu": len(gpus), "gpus": len(counts)}
        shown = [name for name in rows[0] if different.get(name, 2) > 1]
        many = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
        return "\n".join(
            [
                f"{self.model}, global batch {best.job.global_batch}, on {many} {' or '.join(gpus)}",
                f"{self.fitting} configurations fit, {self.too_large} do not; the best {len(rows)}:",
                "",
                table(shown, [[row[name] for name in shown] for row in rows]),
                *([f"the first{best.interval}"] if best.interval else []),
                *sentences(self.evidence, self.assumptions),
            ]
        )

    def _cells(self, row: IterationPrediction) -> dict[str, str]:
        job, cost = row.job, row.cost
        cells = {"gpu": row.gpu, "gpus": str(row.gpus)} | dict(zip("dtp", map(str, job.degrees), strict=True))
        cells |= {"micro-batch": str(job.micro_batch), "precision": job.precision, "recomputation": job.recomputation}
        cells |= {"ZeRO": str(job.zero), "time": seconds_text(row.seconds), "peak": f"{100 * row.mfu:.1f} %"}
        cells |= {"GiB": f"{row.memory.total / 2**30:.1f}", "cost": money(cost.usd_per_iteration) if cost else "-"}
        if self.iterations is not None:
            cells[f"{self.iterations} iterations"] = seconds_text(self.iterations * row.seconds)
            cells["cost in all"] = money(cost.usd) if cost and cost.usd is not None else "-"
        return cells


_VARIED = {"dp": "data", "tp": "tensor", "pp": "pipeline"} | {name: name for name in ("micro_batch", "recomputation", "zero")}


def search_all(resolved: Resolved) -> SearchAnswer:
    """Rank all configurations of a question; raises InputError where every one is impossible."""
    question, report = resolved.question, resolved.settings.report
    given = {name: getattr(question, asked) for asked, name in _VARIED.items() if asked in question.model_fields_set}
    template = resolved.job(data=1, tensor=1, pipeline=1, micro_batch=1)
    found = Search(resolved.predictor, template, given, question.precision or ())
    found.run(list(product(resolved.gpus, question.gpus_total)), lambda fitting: report(f"{fitting} configurations fit"))
    rent_of = cache(resolved.rent)

    def cost(candidate: Candidate) -> tuple[bool, bool, float]:
        """Those with a stale price come after the others, and those without one last."""
        gpu, job, iteration = candidate
        rent = rent_of(gpu, job.gpus)
        return rent is None, rent is not None and rent.is_stale, rent.usd(iteration.seconds) if rent else 0.0

    by: Literal["time", "cost"] = "cost" if len(resolved.gpus) > 1 else "time"
    found.candidates.sort(key=cost if by == "cost" else lambda candidate: candidate[2].seconds)
    shown = found.candidates[:_MOST]
    evidence = resolved.predictor.evidence(*shown[0]) if shown else None
    notes = [*resolved.notes, *price_notes([rent_of(gpu, job.gpus) for gpu, job, _ in shown])]
    if not shown:
        notes.append(f"none of the {found.too_large} configurations fits into memory; use more GPUs, or GPUs with more memory")
    return SearchAnswer(
        model=resolved.name,
        ranked_by=by,
        fitting=len(found.candidates),
        too_large=found.too_large,
        refused=found.refused,
        iterations=question.iterations,
        configurations=[resolved.configuration(gpu, job, each, rent_of(gpu, job.gpus)) for gpu, job, each in shown],
        evidence=list(evidence.rests_on) if evidence else [],
        assumptions=[*(shown[0][2].notes if shown else ()), *(evidence.not_measured if evidence else ())],
        notes=notes,
    )


class ComparisonAnswer(Answer):
    """Seconds of one iteration for each precision and (d, t, p)."""

    model: str
    gpu: str
    rows: list[IterationPrediction]
    refused: dict[str, str]

    @property
    def status(self) -> int:
        """1 where none fits into memory."""
        return 0 if any(row.memory.fits for row in self.rows) else 1

    @property
    def _seconds(self) -> dict[str, dict[str, float | None]]:
        """By precision and by (d, t, p), in their order; None: out of memory."""
        seconds: dict[str, dict[str, float | None]] = {}
        for row in self.rows:
            seconds.setdefault(row.job.precision, {})[str(row.job.degrees)] = row.seconds if row.memory.fits else None
        return seconds

    @property
    def text(self) -> str:
        """A table of degrees and precisions; what is out of memory is marked."""
        seconds, fitting = self._seconds, [row.seconds for row in self.rows if row.memory.fits]
        strategies = dict.fromkeys(str(row.job.degrees) for row in self.rows)
        cells = [
            [
                name,
                *("-" if name not in own else seconds_text(each) if (each := own[name]) else "OOM" for own in seconds.values()),
            ]
            for name in strategies
        ]
        spread = f"the slowest takes {max(fitting) / min(fitting):.2g} times as long as the fastest" if fitting else ""
        return "\n".join(
            [
                f"{self.model} on {self.gpu}: time of one iteration by (data, tensor, pipeline) and precision",
                table(("(d, t, p)", *seconds), cells),
                spread or "nothing fits",
                *(f"{degrees}: {why}" for degrees, why in self.refused.items()),
            ]
        )

    @property
    def chart(self) -> Chart:
        """A bar for each, those of a strategy side by side."""
        names = list(dict.fromkeys(str(row.job.degrees) for row in self.rows))
        bars = [Line(precision, names, [own.get(name, math.nan) for name in names]) for precision, own in self._seconds.items()]
        counts = " or ".join(map(str, sorted({row.job.gpus for row in self.rows})))
        title = f"{self.model}, {counts} {self.gpu}, global batch {self.rows[0].job.global_batch}"
        return Chart({title: bars}, "degrees of data, tensor and pipeline parallelism", "one iteration", "s")


def compare(resolved: Resolved) -> ComparisonAnswer:
    """Predict every strategy in the precisions that are named, else in all of the GPU; raises InputError where none can be."""
    gpu, question = resolved.gpus[0], resolved.question
    count = question.gpus_total[0]
    for name in question.precision or ():
        require(gpu, precision_named(name))
    rows: list[IterationPrediction] = []
    refused: dict[str, str] = {}
    for precision in dict.fromkeys(question.precision or available(gpu)):
        for tensor, pipeline in product(divisors(count), repeat=2):
            if count % (tensor * pipeline):
                continue
            data = count // (tensor * pipeline)
            try:
                job = resolved.sharded(gpu, resolved.job(data=data, tensor=tensor, pipeline=pipeline, precision=precision))
                rows.append(resolved.configuration(gpu, job, resolved.predictor.iteration(gpu, job), None))
            except InputError as error:
                refused[f"({data}, {tensor}, {pipeline})"] = str(error)
    if not rows:
        raise InputError(next(iter(refused.values())))
    return ComparisonAnswer(model=resolved.name, gpu=gpu.name, rows=rows, refused=refused)
