"""Paleo: training time from architecture and data sheet alone, what the paper compares itself with (Table VI)."""

from .layers import Layer, layers_of
from .step_time import PERCENT_OF_PEAK, fit_percent_of_peak, predict_forward_seconds, predict_step_seconds

__all__ = [
    "PERCENT_OF_PEAK",
    "Layer",
    "fit_percent_of_peak",
    "layers_of",
    "predict_forward_seconds",
    "predict_step_seconds",
]
