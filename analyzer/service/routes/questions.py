"""Predictions and recommendations for a profile that is sent."""

from __future__ import annotations

from fastapi import APIRouter

from ..answers import PredictionAnswer
from ..parts import Served
from ..problems import answers
from ..questions import PredictionQuestion

router = APIRouter(prefix="/api/v1", tags=["Predictions"])

_ERRORS = answers(400, 413, 422)


@router.post("/predictions", operation_id="predict", summary="A profile on other GPUs", responses=_ERRORS)
def predictions(served: Served, question: PredictionQuestion) -> PredictionAnswer:
    """Predict how long the job of these profiles takes on each target, as `epochcast predict` does.

    Several profiles are of GPUs that train together: the slowest sets the pace.
    """
    return served.advisor.prediction(question.profiles, targets=question.targets, epochs=question.epochs)
