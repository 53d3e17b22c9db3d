"""What is answered about all ways to spread a training: the ranked configurations, and the text of them."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Literal

from epochcast.analyzer.backends.distributed.answer import IterationPrediction, sentences
from epochcast.analyzer.backends.distributed.resolved import Resolved
from epochcast.analyzer.backends.distributed.search import SearchResult, SearchSpace, search
from epochcast.analyzer.backends.rent import Rent, price_notes
from epochcast.analyzer.plugins.answer import Answer
from epochcast.analyzer.tables import seconds_text, table
from epochcast.analyzer.words import money
from epochcast.regressor import Gpu

_MOST, _MOST_IN_TEXT = 100, 10


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
        header = [*(["gpu"] if len(gpus) > 1 else []), *(["gpus"] if len(counts) > 1 else [])]
        header += ["d", "t", "p", "micro-batch", "precision", "recomputation", "ZeRO", "time", "peak", "GiB", "cost"]
        if self.iterations is not None:
            header += [f"{self.iterations} iterations", "cost in all"]
        rows = [
            [*([row.gpu] if len(gpus) > 1 else []), *([str(row.gpus)] if len(counts) > 1 else []), *self._cells(row)]
            for row in self.configurations[:_MOST_IN_TEXT]
        ]
        many = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
        return "\n".join(
            [
                f"{self.model}, global batch {best.job.global_batch}, on {many} {' or '.join(gpus)}",
                f"{self.fitting} configurations fit, {self.too_large} do not; the best {len(rows)}:",
                "",
                table(header, rows),
                *([f"the first{best.interval}"] if best.interval else []),
                *sentences(self.evidence, self.assumptions),
            ]
        )

    def _cells(self, row: IterationPrediction) -> list[str]:
        job, cost = row.job, row.cost
        cells = [*map(str, (*job.degrees, job.micro_batch, job.precision, job.recomputation, job.zero))]
        cells += [seconds_text(row.seconds), "-" if row.mfu is None else f"{100 * row.mfu:.1f} %"]
        cells += ["-" if row.memory is None else f"{row.memory.total / 2**30:.1f}"]
        cells += ["-" if cost is None else money(cost.usd_per_iteration)]
        if self.iterations is not None:
            cells += [seconds_text(self.iterations * row.seconds), "-" if cost is None or cost.usd is None else money(cost.usd)]
        return cells


def search_all(resolved: Resolved) -> SearchAnswer:
    """Rank all configurations of a question; raises InputError where every one is impossible."""
    question, progress = resolved.question, resolved.progress
    explicit = question.explicit
    space = SearchSpace(
        data=explicit("dp"),
        tensor=explicit("tp"),
        pipeline=explicit("pp"),
        micro_batch=explicit("micro_batch"),
        precisions=tuple(question.precision or ()),
        recomputation=explicit("recomputation"),
        zero=explicit("zero"),
    )

    @cache
    def rent_of(gpu: Gpu, count: int) -> Rent | None:
        return resolved.rent(gpu, count)

    result = search(
        resolved.predictor,
        resolved.job(data=1, tensor=1, pipeline=1, micro_batch=1),
        list(product(resolved.gpus, question.gpus_total)),
        space,
        rent_of,
        progress=progress and (lambda done: progress(f"{done} configurations fit")),
    )
    by: Literal["time", "cost"] = "cost" if len(resolved.gpus) > 1 else "time"
    result.rank(by)
    shown = result.candidates[:_MOST]
    notes = [*resolved.notes, *price_notes([each.rent for each in shown])]
    best = shown[0] if shown else None
    evidence = best and resolved.predictor.evidence(best.gpu, best.job, best.iteration)
    return SearchAnswer(
        model=resolved.name,
        ranked_by=by,
        fitting=len(result.candidates),
        too_large=result.too_large,
        refused=result.refused,
        iterations=question.iterations,
        configurations=[
            resolved.configuration(each.gpu, each.job, each.iteration, each.iteration.memory, each.rent) for each in shown
        ],
        evidence=list(evidence.rests_on) if evidence else [],
        assumptions=[*(best.iteration.notes if best else ()), *(evidence.not_measured if evidence else ())],
        notes=notes if shown else [*notes, _nothing(result)],
    )


def _nothing(result: SearchResult) -> str:
    return f"none of the {result.too_large} configurations fits into memory; use more GPUs, or GPUs with more memory"
