"""Time by precision and parallelism, as in the paper's Fig. 1: figures, and the text of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from epochcast.analyzer.backends.distributed.answer import IterationPrediction
from epochcast.analyzer.backends.distributed.precision import precision_named, require
from epochcast.analyzer.backends.distributed.resolved import Resolved
from epochcast.analyzer.backends.distributed.search import available, degrees
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins.answer import Answer, AnswerPart
from epochcast.analyzer.plugins.chart import Chart, Line
from epochcast.analyzer.tables import seconds_text, table
from epochcast.regressor import Gpu

Degrees = tuple[int, int, int]


class Refused(AnswerPart):
    """Degrees that are impossible, and why."""

    data: int
    tensor: int
    pipeline: int
    why: str


class ComparisonAnswer(Answer):
    """Seconds of one iteration for each precision and (d, t, p)."""

    model: str
    gpu: str
    rows: list[IterationPrediction]
    refused: list[Refused]

    @property
    def status(self) -> int:
        """1 where none fits into memory."""
        return 0 if any(row.fitting for row in self.rows) else 1

    @property
    def text(self) -> str:
        """A table of degrees and precisions; what is out of memory is marked."""
        cells = {(row.job.degrees, row.job.precision): seconds_text(row.seconds) if row.fitting else "OOM" for row in self.rows}
        precisions = list(dict.fromkeys(row.job.precision for row in self.rows))
        rows = [
            [str(strategy), *(cells.get((strategy, name), "-") for name in precisions)]
            for strategy in dict.fromkeys(row.job.degrees for row in self.rows)
        ]
        fitting = [row.seconds for row in self.rows if row.fitting]
        spread = (
            f"the slowest takes {max(fitting) / min(fitting):.2g} times as long as the fastest" if fitting else "nothing fits"
        )
        return "\n".join(
            [
                f"{self.model} on {self.gpu}: time of one iteration by (data, tensor, pipeline) and precision",
                table(("(d, t, p)", *precisions), rows),
                spread,
                *(f"({each.data}, {each.tensor}, {each.pipeline}): {each.why}" for each in self.refused),
            ]
        )

    @property
    def chart(self) -> Chart:
        """A bar for each, those of a strategy side by side."""
        seconds = {(row.job.degrees, row.job.precision): row.seconds if row.fitting else None for row in self.rows}
        strategies = list(dict.fromkeys(row.job.degrees for row in self.rows))
        names = ["({}, {}, {})".format(*degrees) for degrees in strategies]
        bars = [
            Line(precision, names, [seconds.get((degrees, precision), math.nan) for degrees in strategies])
            for precision in dict.fromkeys(row.job.precision for row in self.rows)
        ]
        counts = " or ".join(map(str, sorted({row.job.gpus for row in self.rows})))
        title = f"{self.model}, {counts} {self.gpu}, global batch {self.rows[0].job.global_batch}"
        return Chart({title: bars}, "degrees of data, tensor and pipeline parallelism", "one iteration", "s")


def compare(resolved: Resolved) -> ComparisonAnswer:
    """Predict every precision and strategy; raises InputError where all are impossible."""
    gpu, question = resolved.gpus[0], resolved.question
    chosen = list(degrees(question.gpus_total[0]))
    rows: list[IterationPrediction] = []
    refused: dict[Degrees, str] = {}
    for precision in _precisions(question.precision or (), gpu):
        for data, tensor, pipeline in chosen:
            try:
                job = resolved.sharded(gpu, resolved.job(data=data, tensor=tensor, pipeline=pipeline, precision=precision))
                iteration = resolved.predictor.iteration(gpu, job)
                memory = resolved.predictor.prepared(gpu, job).memory
            except InputError as error:
                refused[data, tensor, pipeline] = str(error)
                continue
            rows.append(resolved.configuration(gpu, job, iteration, memory, None))
    if not rows:
        raise InputError(next(iter(refused.values())))
    impossible = [Refused(data=d, tensor=t, pipeline=p, why=why) for (d, t, p), why in refused.items()]
    return ComparisonAnswer(model=resolved.name, gpu=gpu.name, rows=rows, refused=impossible)


def _precisions(names: Sequence[str], gpu: Gpu) -> Sequence[str]:
    """The requested precisions, which the GPU must have; else all that it has."""
    requested = dict.fromkeys(names)
    for name in requested:
        require(gpu, precision_named(name))
    return tuple(requested) or available(gpu)
