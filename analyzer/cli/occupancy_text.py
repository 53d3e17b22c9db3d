"""What the commands on GPU occupancy say of labels, fitted predictors and predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..backends.occupancy.answer import NOTHING_CLAIMED
from ..backends.occupancy.batch_sweep import WITHIN
from ..words import count, number
from .tables import seconds_text, table

_LABELS = {
    "launch_config": "launch_config, CUDA's occupancy calculation over the kernels that a profiler recorded",
    "modelled": f"modelled, CUDA's occupancy calculation over kernels that a model of the launches expects: {NOTHING_CLAIMED}",
    "ncu": "ncu, the active warps that the hardware counted",
}

_MARKED = "not of the fitted predictor but of the kernels that a model of PyTorch's launches expects"

TARGETS = {
    "mean": "mean over kernel launches",
    "time_mean": "mean over kernels weighted by their time",
    "max": "highest of any kernel",
}


def labels_text(labels: str) -> str:
    """The first line of every answer: where the occupancies come from."""
    return f"labels: {_LABELS[labels]}"


def fitted_text(model: Mapping[str, Any]) -> str:
    """What a predictor rests on, and how far off it is on networks that were left out."""
    rows = f"{count(model['rows'], 'row')} of {count(len(model['networks']), 'network')} on {', '.join(model['gpus'])}"
    fitted = f"{model['model']}, fitted on {rows}; {TARGETS[model['target']]}"
    if model["mape"] is None:
        return f"{fitted}\nhow far off it is on other networks is not known: too few to leave some out, or it was not tried"
    return (
        f"{fitted}\nmean error on networks that were left out: {model['mape']:.1f} %; nine of ten of their rows lie within "
        f"x {1 / model['factor']:.2f} to x {model['factor']:.2f}"
    )


def prediction_text(answer: Mapping[str, Any]) -> str:
    """The whole answer on a network."""
    parts = [
        f"{labels_text(answer['labels'])}\n{_network(answer)}",
        _predictions(answer),
        "\n".join(_batches(one) for one in answer["batches"]),
        fitted_text(answer["model"]) if answer["model"] is not None else answer["why"],
    ]
    return "\n\n".join(part for part in parts if part)


def percent(ratio: float | None) -> str:
    """A ratio 0..1 as a reader sees it; ``-`` where there is none."""
    return "-" if ratio is None or math.isnan(ratio) else f"{100 * ratio:.1f} %"


def _network(answer: Mapping[str, Any]) -> str:
    sizes = [f"{name.replace('_', ' ')} {value}" for name, value in answer["sizes"].items()]
    told = ", ".join([answer["network"], *sizes, answer["precision"]])
    return f"{told}: {answer['nodes']} operators, {answer['edges']} edges"


def _predictions(answer: Mapping[str, Any]) -> str:
    """One line per GPU and batch; columns that nothing is known for are left out."""
    predictions = answer["predictions"]
    columns: dict[str, list[str]] = {
        "GPU": [one["gpu"] for one in predictions],
        "batch": [str(one["batch"]) for one in predictions],
        "occupancy": [percent(one["occupancy"]) for one in predictions],
    }
    if any(not math.isnan(one["low"]) for one in predictions):
        columns["90 % interval"] = [f"{percent(one['low'])} to {percent(one['high'])}" for one in predictions]
    modelled = [one["modelled"] for one in predictions]
    if answer["model"] is None:
        columns["by time"] = [percent(one["time_mean"]) for one in modelled]
        columns["highest"] = [percent(one["max"]) for one in modelled]
    mark = "" if answer["model"] is None else "*"
    columns |= {
        f"kernels{mark}": [str(one["kernels"]) for one in modelled],
        f"step{mark}": [seconds_text(one["step_s"]) for one in modelled],
        f"NVML{mark}": [percent(one["nvml_utilisation"]) for one in modelled],
        f"memory{mark}": [_memory(one) for one in modelled],
    }
    legend = f"\n* {_MARKED}" if mark else ""
    return table(list(columns), list(zip(*columns.values(), strict=True))) + legend


def _memory(modelled: Mapping[str, Any]) -> str:
    gibibytes = f"{number(modelled['memory_bytes'] / 2**30)} GiB"
    return gibibytes if modelled["fits"] else f"{gibibytes}, does not fit"


def _batches(one: Mapping[str, Any]) -> str:
    tried = "the most that memory holds" if one["bound_by_memory"] else "the most that was tried"
    highest = f"highest on {one['gpu']}: {percent(one['highest'])} at batch {one['highest_at']}"
    if one["smallest"] == one["largest"]:
        return f"{highest}, {tried}: no smaller one is within {100 * WITHIN:.0f} % of it"
    return f"{highest}; smallest batch within {100 * WITHIN:.0f} % of it: {one['smallest']} (of 1 to {one['largest']}, {tried})"
