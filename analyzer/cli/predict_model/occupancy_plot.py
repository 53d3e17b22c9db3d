"""Occupancy by batch as ``epochcast predict-model occupancy --plot`` draws it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ...figures.occupancy_by_batch import BatchCurve, occupancy_by_batch_figure


def batches_figure(answer: Mapping[str, Any]) -> Figure:
    """A panel per GPU; NVML utilisation is that of the modelled launches."""
    best = {one["gpu"]: one["smallest"] for one in answer["batches"]}
    curves = []
    for gpu in dict.fromkeys(one["gpu"] for one in answer["predictions"]):
        own = [one for one in answer["predictions"] if one["gpu"] == gpu]
        curves.append(
            BatchCurve(
                f"{answer['network']} on {gpu}, {answer['precision']}",
                np.array([one["batch"] for one in own], dtype=float),
                np.array([one["occupancy"] for one in own], dtype=float),
                np.array([one["low"] for one in own], dtype=float),
                np.array([one["high"] for one in own], dtype=float),
                np.array([one["modelled"]["nvml_utilisation"] for one in own], dtype=float),
                best.get(gpu),
            )
        )
    return occupancy_by_batch_figure(curves, "modelled" if answer["model"] is None else "predicted", "modelled")
