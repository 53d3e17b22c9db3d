"""Answers on GPU occupancy as JSON has them; text, figures and the service's answers are made from these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .batch_sweep import LARGEST, best_batch
from .modelled_kernels import ModelledStep
from .modelled_launches import modelled_notes
from .points import SIZES
from .predictor import Predictor
from .sample import Sample

NOTHING_CLAIMED = "nothing of it was measured, and nothing is claimed for hardware"

_WHY = (
    "occupancy of the kernels that a model of PyTorch's launches expects, mean over launches, by CUDA's occupancy calculation; "
    "how far off it is on hardware is not known: fit a model on measurements (`epochcast train occupancy`)"
)


def fitted_json(predictor: Predictor) -> dict[str, Any]:
    """What a predictor rests on.

    ``mape``, in percent, and ``factor``, within which of the prediction nine of ten rows are, come from networks that were left
    out; null where that was not tried.
    """
    reliability = predictor.reliability
    return {
        "rows": predictor.fitted_on.rows,
        "gpus": list(predictor.fitted_on.gpus),
        "networks": dict(predictor.fitted_on.networks),
        "model": predictor.model,
        "target": predictor.target,
        "labels": predictor.labels,
        "settings": predictor.settings,
        "mape": None if reliability is None else reliability.mre,
        "factor": None if reliability is None else reliability.factor,
    }


@dataclass(frozen=True)
class Asked:
    """A configuration on a GPU, and what its launches are expected to be."""

    sample: Sample
    step: ModelledStep


def answer_json(groups: Sequence[Sequence[Asked]], predictor: Predictor | None, *, swept: bool) -> dict[str, Any]:
    """The answer on one network: a group per GPU, each in ascending order of batch."""
    asked = [one for group in groups for one in group]
    samples = [one.sample for one in asked]
    first = samples[0]
    configuration, graph = first.configuration, first.graph
    labels = "modelled" if predictor is None else predictor.labels
    predictions = _predictions(asked, predictor)
    sizes = {name: getattr(configuration, name) for name in SIZES if name != "batch"}
    return {
        "labels": labels,
        "network": configuration.network,
        "sizes": {name: size for name, size in sizes.items() if size},
        "precision": configuration.precision,
        "nodes": len(graph),
        "edges": graph.edges.shape[1],
        "unknown_operators": dict(graph.unknown),
        "model": None if predictor is None else fitted_json(predictor),
        "why": _WHY if predictor is None else f"{predictor.model} fitted on labels {labels}",
        "predictions": predictions,
        "batches": [_best(group[0].sample.gpu.name, predictions) for group in groups] if swept else [],
        "notes": _notes(samples, predictor),
    }


def _predictions(asked: Sequence[Asked], predictor: Predictor | None) -> list[dict[str, Any]]:
    predicted = None if predictor is None else predictor.predict([one.sample for one in asked]).to_dict("records")
    entries = []
    for place, one in enumerate(asked):
        gpu, step = one.sample.gpu, one.step
        if predicted is None:
            told = {"occupancy": step.mean, "low": float("nan"), "high": float("nan")}
        else:
            told = {str(name): float(value) for name, value in predicted[place].items()}
        modelled = asdict(step) | {"fits": step.memory_bytes <= gpu.memory}
        entries.append({"gpu": gpu.name, "batch": one.sample.configuration.batch, **told, "modelled": modelled})
    return entries


def _best(gpu: str, predictions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a sweep over batches of one GPU found."""
    own = [one for one in predictions if one["gpu"] == gpu]
    found = best_batch(np.array([one["batch"] for one in own]), np.array([one["occupancy"] for one in own]))
    return {"gpu": gpu, **asdict(found), "bound_by_memory": found.largest < LARGEST}


def _notes(samples: Sequence[Sample], predictor: Predictor | None) -> list[str]:
    if predictor is not None:
        modelled = [f"it was fitted on modelled labels: {NOTHING_CLAIMED}"] if predictor.labels == "modelled" else []
        return [*modelled, *predictor.notes(samples)]
    return modelled_notes(samples)
