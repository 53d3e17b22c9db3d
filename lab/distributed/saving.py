"""Writes what was fitted as a model's folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from epochcast.analyzer.backends.distributed.fitted_model import DistributedManifest, DistributedModel
from epochcast.analyzer.backends.distributed.operator_time.learned import OperatorModel
from epochcast.regressor.model_folder import save


def save_model(model: DistributedModel, folder: Path) -> None:
    """Write the model into a folder, whole or not at all.

    Raises:
        InputError: the folder holds something else or cannot be written.
    """
    state = {
        "coefficients": model.coefficients,
        "fitted_on": {"gpus": model.gpus, "parameters": model.parameters},
        "operators": _state(model.operators),
    }
    arrays = {name: family.trees.arrays() for name, family in model.operators.families.items()}
    save(folder, DistributedManifest, state | arrays)


def _state(model: OperatorModel) -> dict[str, Any]:
    """The operator model but for its trees."""
    return {
        "boards": {gpu: {"tdp": tdp, "compute_capability": cc} for gpu, (tdp, cc) in model.boards.items()},
        "families": {
            name: [{"gpu": gpu, "dtype": dtype, **asdict(rates)} for (gpu, dtype), rates in sorted(family.rates.items())]
            for name, family in model.families.items()
        },
    }
