"""Predictions and recommendations for a profile that is sent."""

from __future__ import annotations

from fastapi import APIRouter

from ...answers.answer_schema import PredictionAnswer, RecommendationAnswer
from ...answers.job_json import recommendation_answer
from ...answers.job_result import JobQuestion
from ...answers.question_schema import PredictionQuestion, RecommendationQuestion
from ...answers.recommendations import Renting
from ...plugins.black_box import predicted
from ...recommendation import Limits, Work
from ..limits import JsonRoute
from ..parts import Served
from ..problems import answers

router = APIRouter(prefix="/api/v1", tags=["Predictions"], route_class=JsonRoute)

_ERRORS = answers(400, 413, 422)


@router.post("/predictions", operation_id="predict", summary="A profile on other GPUs", responses=_ERRORS)
def predictions(served: Served, question: PredictionQuestion) -> PredictionAnswer:
    """Predict how long the job of these profiles takes on each target, as `epochcast predict` does.

    Several profiles are of GPUs that train together: the slowest sets the pace.
    """
    return predicted(served.advisor, question)


@router.post("/recommendations", operation_id="recommend", summary="Where to run the job of a profile", responses=_ERRORS)
def recommendations(served: Served, question: RecommendationQuestion) -> RecommendationAnswer:
    """Rank instances by cost or time, as `epochcast recommend` does, for a job of as many GPUs as there are profiles."""
    limits = Limits(question.deadline_s, question.budget_usd, question.regions, question.clouds, question.market)
    asked = JobQuestion(
        work=None if question.epochs is None else Work(question.epochs),
        batch_may_grow=question.batch_may_grow,
        renting=Renting(question.objective, limits, data_parallel=question.data_parallel),
    )
    return recommendation_answer(served.advisor.answer(question.profiles, asked))
