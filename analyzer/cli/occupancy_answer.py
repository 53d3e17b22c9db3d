"""Answers of the commands on GPU occupancy as JSON has them; text and figures are made from these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..backends.occupancy.batch_sweep import LARGEST, best_batch
from ..backends.occupancy.modelled_launches import modelled_notes, modelled_step
from ..backends.occupancy.points import SIZES
from ..backends.occupancy.predictor import Predictor
from ..backends.occupancy.sample import Sample
from .occupancy_text import NOTHING_CLAIMED

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


def answer_json(groups: Sequence[Sequence[Sample]], predictor: Predictor | None, *, swept: bool) -> dict[str, Any]:
    """The answer on one network: a group of samples per GPU, each in ascending order of batch."""
    samples = [sample for group in groups for sample in group]
    first = samples[0]
    configuration, graph = first.configuration, first.graph
    labels = "modelled" if predictor is None else predictor.labels
    predictions = _predictions(samples, predictor)
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
        "batches": [_best(group, predictions) for group in groups] if swept else [],
        "notes": _notes(samples, predictor),
    }


def _predictions(samples: Sequence[Sample], predictor: Predictor | None) -> list[dict[str, Any]]:
    predicted = None if predictor is None else predictor.predict(samples).to_dict("records")
    entries = []
    for place, sample in enumerate(samples):
        step = modelled_step(sample)
        if predicted is None:
            told = {"occupancy": step.mean, "low": float("nan"), "high": float("nan")}
        else:
            told = {str(name): float(value) for name, value in predicted[place].items()}
        entries.append(
            {
                "gpu": sample.gpu.name,
                "batch": sample.configuration.batch,
                **told,
                "modelled": asdict(step) | {"fits": step.memory_bytes <= sample.gpu.memory},
            }
        )
    return entries


def _best(group: Sequence[Sample], predictions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a sweep over batches of one GPU found."""
    own = [one for one in predictions if one["gpu"] == group[0].gpu.name]
    found = best_batch(np.array([one["batch"] for one in own]), np.array([one["occupancy"] for one in own]))
    return {"gpu": group[0].gpu.name, **asdict(found), "bound_by_memory": found.largest < LARGEST}


def _notes(samples: Sequence[Sample], predictor: Predictor | None) -> list[str]:
    if predictor is not None:
        modelled = [f"it was fitted on modelled labels: {NOTHING_CLAIMED}"] if predictor.labels == "modelled" else []
        return [*modelled, *predictor.notes(samples)]
    return modelled_notes(samples)
