"""What the commands on GPU occupancy say of fitted predictors and predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..backends.occupancy.batch_sweep import WITHIN
from ..words import number
from .tables import percent, seconds_text, table

_LABELS = {"sm_occupancy": "SM occupancy", "sm_active": "SM activity", "peak_memory": "peak memory"}


def fitted_text(model: Mapping[str, Any]) -> str:
    """What a predictor rests on, and how far off it is on architectures that were left out."""
    rows = ", ".join(f"{_LABELS[label]} {rows}" for label, rows in model["rows"].items())
    fitted = f"{model['model']}, fitted on measured trainings on {', '.join(model['gpus'])} ({rows})"
    if not model["errors"]:
        return f"{fitted}\nhow far off it is on other networks is not known: too few to leave some out"
    errors = ", ".join(f"{_LABELS[label]} {errors['mape']:.1f} %" for label, errors in model["errors"].items())
    return f"{fitted}\nmean error on architectures that were left out: {errors}"


def prediction_text(answer: Mapping[str, Any]) -> str:
    """The whole answer on a network."""
    rows = answer["predictions"]
    trainings = [row for row in rows if row["training"]["peak_memory"]]
    fallback = [row for row in rows if not row["training"]["sm_occupancy"]]
    parts = [
        _network(answer),
        f"training:\n{_trainings(trainings)}" if trainings else "",
        f"inference, kernels that PyTorch is expected to launch (not measured):\n{_launches(fallback)}" if fallback else "",
        "\n".join(_batches(sweep) for sweep in answer["batches"]),
        fitted_text(answer["model"]) if trainings else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _network(answer: Mapping[str, Any]) -> str:
    sizes = [f"{name.replace('_', ' ')} {value}" for name, value in answer["sizes"].items()]
    title = ", ".join([answer["network"], *sizes, answer["precision"]])
    return f"{title}: {answer['nodes']} operators, {answer['edges']} edges"


def _trainings(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line per GPU and batch."""
    header = ("GPU", "batch", "SM occupancy", "90 % interval", "SM activity", "peak memory", "90 % interval", "fits")
    lines = []
    for row in rows:
        training = row["training"]
        occupancy, activity, memory = (training[label] or {} for label in _LABELS)
        lines.append(
            (
                row["gpu"],
                str(row["batch"]),
                percent(occupancy.get("value")),
                _interval(percent(occupancy.get("low")), percent(occupancy.get("high"))),
                percent(activity.get("value")),
                _gibibytes(memory["value"]),
                _interval(_gibibytes(memory["low"]), _gibibytes(memory["high"])),
                "yes" if training["out_of_memory"] < 0.5 else "no",
            )
        )
    return table(header, lines)


def _launches(rows: Sequence[Mapping[str, Any]]) -> str:
    header = ("GPU", "batch", "occupancy", "by time", "highest", "kernels", "step", "NVML", "memory")
    lines = []
    for row in rows:
        step = row["modelled"]
        ratios = [percent(step[name]) for name in ("mean", "time_mean", "max")]
        memory = _gibibytes(step["memory_bytes"]) + ("" if step["fits"] else ", does not fit")
        others = (str(step["kernels"]), seconds_text(step["step_s"]), percent(step["nvml_utilisation"]), memory)
        lines.append((row["gpu"], str(row["batch"]), *ratios, *others))
    return table(header, lines)


def _interval(low: str, high: str) -> str:
    return "-" if low == "-" else f"{low} to {high}"


def _gibibytes(size: float) -> str:
    return f"{number(size / 2**30)} GiB"


def _batches(sweep: Mapping[str, Any]) -> str:
    tried = "the most that memory holds" if sweep["bound_by_memory"] else "the most that was tried"
    highest = f"highest on {sweep['gpu']}: {percent(sweep['highest'])} at batch {sweep['highest_at']}"
    if sweep["smallest"] == sweep["largest"]:
        return f"{highest}, {tried}: no smaller one is within {100 * WITHIN:.0f} % of it"
    bounds = f"of 1 to {sweep['largest']}, {tried}"
    return f"{highest}; smallest batch within {100 * WITHIN:.0f} % of it: {sweep['smallest']} ({bounds})"
