"""Time by precision and parallelism, as in the paper's Fig. 1: figures, and the text of them."""

from __future__ import annotations

import math
from itertools import product

from epochcast.analyzer.backends.distributed.answer import IterationPrediction
from epochcast.analyzer.backends.distributed.backend import Resolved
from epochcast.analyzer.backends.distributed.plan.precision import available, precision_named, require
from epochcast.analyzer.backends.distributed.search import divisors
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins.answer import Answer
from epochcast.analyzer.plugins.chart import Chart, Line
from epochcast.analyzer.tables import seconds_text, table


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
