"""``python -m lab.measure operators``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from epochcast.analyzer.backends.distributed.precision import precision_named
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins import Plugin
from epochcast.analyzer.plugins.answer import TableMeasured
from epochcast.analyzer.plugins.question import Option, Question
from epochcast.extras import how_to_install

_MODELS = ("llama-3.1-8b", "gpt-2-small", "bert-base", "vit-b/16", "resnet-50")
_PRECISIONS = ("fp32", "bf16")


class MeasureQuestion(Question):
    """Which operators to measure, where and for how long."""

    device: Annotated[Literal["cuda", "cpu"], Field(description="Device to measure on.")]
    model: Annotated[
        list[str],
        Option(metavar="NAME", default=", ".join(_MODELS)),
        Field(default_factory=list, description="Model whose operators to measure."),
    ]
    precision: Annotated[
        list[str],
        Option(metavar="NAME", default=", ".join(_PRECISIONS)),
        Field(default_factory=list, description="Precision to measure in."),
    ]
    budget: Annotated[
        float,
        Option(metavar="TIME", default="10m", duration=True),
        Field(ge=0, description="Time to list and measure operators: seconds, or 20m, 1h."),
    ] = 600.0
    seed: Annotated[int, Option(metavar="N", default="0"), Field(description="Seed of the order and the random operators.")] = 0
    out: Annotated[Path, Option(metavar="FILE.csv"), Field(description="Corpus (CSV) to start or continue.")]


class MeasureAnswer(TableMeasured):
    """Operators in the corpus, and those of this run."""

    @property
    def text(self) -> str:
        """In a line."""
        left = f"; {self.left} are left for another run" if self.left else ""
        failed = f"; {self.failed} could not be run" if self.failed else ""
        return f"{self.out}: {self.rows} operator times, {self.new} of them new{left}{failed}"


class OperatorMeasurement(Plugin):
    """Times operators on this machine; operator models are fitted to the times."""

    name = "operators"
    summary = "Time the operators of models, and random operators."
    manual = """Time the operators of models at several batch sizes, and random operators, into a corpus.

    The order is random, so a run that stops early has still measured a fair sample; the same command continues it.
    Predictions learn operator times from such a corpus or look them up in it. At least 24 operators are measured, even
    beyond the --budget. Exits 1 if nothing could be measured.

    \b
    Example: python -m lab.measure operators --device cuda --precision bf16 \\
                 --budget 15m --out operators.csv
    """
    reads_catalog = False
    Question, Answer = MeasureQuestion, MeasureAnswer

    def answer(self, question: MeasureQuestion) -> MeasureAnswer:
        """Measure, and write the corpus; raises InputError."""
        began = time.monotonic()
        precisions = [precision_named(name) for name in question.precision or _PRECISIONS]
        try:
            from lab.distributed.collection import collect, plan
        except ImportError as error:
            raise InputError(f"this needs PyTorch, which cannot be loaded ({error}); {how_to_install('torch')}") from error
        from epochcast.analyzer.backends.convmeter.measurement.device import check_device

        check_device(question.device)
        report = self._settings.report
        operators = plan(question.model or _MODELS, precisions, question.device, question.seed, report)
        collected = collect(
            operators,
            question.out,
            question.device,
            question.budget - (time.monotonic() - began),
            lambda done, total: report(f"{done}/{total} operators"),
        )
        return MeasureAnswer(**vars(collected), out=question.out)
