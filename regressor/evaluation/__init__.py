"""Accuracy of a recipe: by a protocol on one data set, or fitted on one and tested on another."""

from .by_protocol import BASELINES, evaluate
from .by_split import evaluate_split
from .result import Evaluation

__all__ = ["BASELINES", "Evaluation", "evaluate", "evaluate_split"]
