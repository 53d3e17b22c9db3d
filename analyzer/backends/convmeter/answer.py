"""Parts of the answers on ConvNets as JSON has them; text, figures and the service's answers are made from these."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..distributed.rent import Rent
from .metrics import NetworkMetrics
from .points import PHASES
from .predictor import Cell
from .scalability import Scaling, cost_points
from .training_memory import training_memory

RentOf = Callable[[int], Rent | None]
"""The cheapest way to rent so many devices; None where no price is known."""

RATE_OF = {"step": "training", "inference": "inference"}
"""What throughput is called by the phase that it is of."""


@dataclass(frozen=True)
class Training:
    """What the steps are for.

    Attributes:
        dataset_size: images of an epoch; None: not told, and nothing is said about epochs and their cost.
        epochs: how many.
        device_bytes: memory of a device; None where it is not known.
        rent_of: prices.
    """

    dataset_size: int | None
    epochs: int | None
    device_bytes: float | None
    rent_of: RentOf


def fitted_json(cell: Cell) -> dict[str, dict[str, Any]]:
    """What each phase rests on.

    ``mape``, in percent, and ``factor``, within which of the seconds nine of ten are, come from families or networks that were
    left out; NaN where there were too few.
    """
    return {
        phase: {
            "form": fit.form,
            "points": fit.points,
            "networks": fit.networks,
            "batches": list(fit.ranges["batch"]),
            "mape": fit.mape,
            "factor": fit.factor,
            "source": fit.source,
        }
        for phase, fit in cell.fits.items()
    }


def metrics_json(metrics: NetworkMetrics) -> dict[str, float]:
    """The metrics of section 3, of one image."""
    return {name: metrics.values[name] for name in ("flops", "conv_inputs", "conv_outputs", "weights", "layers")}


def phases_json(seconds: Mapping[Hashable, float]) -> dict[str, dict[str, float]]:
    """Seconds and their 90 % interval by phase, from a row of ``Predictor.predict``; phases that it lacks are left out."""
    return {
        phase: {"seconds": seconds[f"{phase}_seconds"], "low": seconds[f"{phase}_low"], "high": seconds[f"{phase}_high"]}
        for phase in PHASES
        if f"{phase}_seconds" in seconds and np.isfinite(seconds[f"{phase}_seconds"])
    }


def predictions_json(
    metrics: NetworkMetrics, precision: str, points: pd.DataFrame, predicted: pd.DataFrame, training: Training
) -> list[dict[str, Any]]:
    """One entry per point, in their order.

    Args:
        metrics: of the network.
        precision: of the training.
        points: with ``batch``, ``devices`` and ``nodes``.
        predicted: seconds of the same rows, columns as of ``Predictor.predict``.
        training: what the steps are for.
    """
    entries = []
    sizes = points[["batch", "devices", "nodes"]].to_numpy(dtype=int)
    for (batch, devices, nodes), seconds in zip(sizes.tolist(), predicted.to_dict("records"), strict=True):
        phases = phases_json(seconds)
        entries.append(
            {
                "batch": batch,
                "devices": devices,
                "nodes": nodes,
                "phases": phases,
                "images_per_second": _rates(phases, batch * devices),
                "memory": _memory_json(metrics, batch, precision, training.device_bytes) if "step" in phases else None,
                **_epochs_json(phases, batch, devices, training),
            }
        )
    return entries


def scaling_json(mode: str, predictions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What more devices bring, from predictions on several numbers of them in ascending order."""
    scaling = scaling_of(predictions)
    costs = np.array([_usd(one) for one in predictions])
    seconds = np.array([one["epoch_seconds"] or np.nan for one in predictions], dtype=float)
    rents = cost_points(scaling.devices, seconds, costs)
    return {
        "mode": mode,
        "batch": predictions[0]["batch"] if mode == "weak" else None,
        "devices": [one["devices"] for one in predictions],
        "images_per_second": scaling.images_per_second.tolist(),
        "speed_up": scaling.speed_up.tolist(),
        "efficiency": scaling.efficiency.tolist(),
        "turning_point": scaling.turning_point,
        "fastest": scaling.fastest,
        "cheapest": None if rents is None else rents.cheapest,
        "knee": None if rents is None else rents.knee,
        "front": None if rents is None else list(rents.front),
    }


def scaling_of(predictions: Sequence[Mapping[str, Any]]) -> Scaling:
    """The training steps of predictions; inference where no training step is predicted."""
    main = main_phase(predictions[0]["phases"])
    seconds = np.array([one["phases"][main]["seconds"] for one in predictions], dtype=float)
    return Scaling(_column(predictions, "batch"), _column(predictions, "devices"), seconds)


def main_rates(predictions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, float]]:
    """Images per second of each, in training where it is predicted, else in inference."""
    return [one["images_per_second"][RATE_OF[main_phase(one["phases"])]] for one in predictions]


def main_phase(phases: Mapping[str, Any]) -> str:
    """The phase that throughput is about."""
    return "step" if "step" in phases else "inference"


def _column(predictions: Sequence[Mapping[str, Any]], key: str) -> NDArray[np.float64]:
    return np.array([one[key] for one in predictions], dtype=float)


def _rates(phases: Mapping[str, Mapping[str, float]], images: int) -> dict[str, dict[str, float]]:
    """Images per second in training and in inference, with the interval."""
    return {
        name: {key: images / phases[phase][of] for key, of in (("value", "seconds"), ("low", "high"), ("high", "low"))}
        for phase, name in RATE_OF.items()
        if phase in phases
    }


def _memory_json(metrics: NetworkMetrics, batch: int, precision: str, device_bytes: float | None) -> dict[str, Any] | None:
    memory = training_memory(metrics.values, batch, precision, device_bytes)
    return None if memory is None else vars(memory) | {"fits": memory.fits}


def _epochs_json(phases: Mapping[str, Mapping[str, float]], batch: int, devices: int, training: Training) -> dict[str, Any]:
    """Time and cost of an epoch and of all of them; null where they were not asked for or are not known."""
    if training.dataset_size is None or "step" not in phases:
        return dict.fromkeys(("epoch_seconds", "seconds", "cost"))
    step = np.array([phases["step"]["seconds"]])
    seconds = float(Scaling(np.array([batch]), np.array([devices]), step).epoch_seconds(training.dataset_size)[0])
    rent, epochs = training.rent_of(devices), training.epochs
    return {
        "epoch_seconds": seconds,
        "seconds": None if epochs is None else epochs * seconds,
        "cost": None
        if rent is None
        else rent.rented | {"usd_per_epoch": rent.usd(seconds), "usd": None if epochs is None else rent.usd(epochs * seconds)},
    }


def _usd(prediction: Mapping[str, Any]) -> float:
    return float("nan") if prediction["cost"] is None else float(prediction["cost"]["usd_per_epoch"])
