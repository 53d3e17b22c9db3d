"""Throughput as ``epochcast predict-model convmeter --plot`` draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ...backends.convmeter.answer import main_rates
from ...figures.scaling import ScalingCurve, scaling_figure


def throughput_figure(answer: Mapping[str, Any]) -> Figure:
    """Throughput by devices, a panel per batch; by batch where there is one number of devices."""
    name, predictions = answer["network"], answer["predictions"]
    if not answer["scaling"]:
        return scaling_figure([_curve(name, predictions, "batch", None)], "images per device and step")
    each = len(predictions) // len(answer["scaling"])
    curves = []
    for number, scaling in enumerate(answer["scaling"]):
        group = predictions[number * each : (number + 1) * each]
        title = name if scaling["batch"] is None else f"{name}, batch {scaling['batch']}"
        curves.append(_curve(title, group, "devices", scaling["turning_point"]))
    return scaling_figure(curves, "devices")


def _curve(title: str, predictions: Sequence[Mapping[str, Any]], by: str, turning_point: int | None) -> ScalingCurve:
    rates = main_rates(predictions)
    return ScalingCurve(
        title,
        np.array([one[by] for one in predictions], dtype=float),
        predicted=np.array([rate["value"] for rate in rates]),
        low=np.array([rate["low"] for rate in rates]),
        high=np.array([rate["high"] for rate in rates]),
        turning_point=turning_point,
        beyond=np.array([one["memory"] is not None and one["memory"]["fits"] is False for one in predictions]),
    )
