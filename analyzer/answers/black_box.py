"""The backend ``black-box``: a job on other GPUs, from the telemetry of the one that it runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..plugins import Settings
from ..recommendation import Work
from .answer_schema import PredictionAnswer
from .job_json import prediction_answer
from .job_result import JobQuestion
from .question_schema import PredictionQuestion

if TYPE_CHECKING:
    from .advisor import Advisor


class BlackBox:
    """Predicts by profiles of hardware metrics; see ``docs/regressor.md``.

    The service answers its questions itself, with the model that it has loaded anyway: they take milliseconds.
    """

    name: ClassVar[str] = "black-box"
    summary: ClassVar[str] = (
        "Time of an epoch or step on every GPU of the catalogue, with 90 % intervals, from the profile of a run on one GPU."
    )
    Question: ClassVar[type[PredictionQuestion]] = PredictionQuestion
    Answer: ClassVar[type[PredictionAnswer]] = PredictionAnswer

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._advisor: Advisor | None = None

    def answer(self, question: PredictionQuestion) -> PredictionAnswer:
        """Answer as ``POST /api/v1/predictions`` does; raises InputError."""
        if self._advisor is None:
            from .advisor import Advisor

            own = self._settings
            self._advisor = Advisor.load(model=own.model, gpus=own.gpus, prices=own.prices)
        return predicted(self._advisor, question)


def predicted(advisor: Advisor, question: PredictionQuestion) -> PredictionAnswer:
    """What an advisor says to the question; raises InputError."""
    asked = JobQuestion(
        targets=question.targets,
        work=None if question.epochs is None else Work(question.epochs),
        target_gpus=question.target_gpus,
        batch_may_grow=question.batch_may_grow,
    )
    return prediction_answer(advisor.answer(question.profiles, asked))
