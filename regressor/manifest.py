"""What ``model.json`` of both pipelines holds."""

from typing import Any

from epochcast.regressor.calibration import Calibration
from epochcast.regressor.intervals import ScaledInterval
from epochcast.regressor.model_folder import Manifest


class RegressorManifest(Manifest):
    """The whole of ``model.json`` of pipeline ``default``."""

    SCHEMA = "epochcast.regressor/v8"
    COMMAND = "epochcast fit regressor"
    OTHERWISE = "name another model, or with `epochcast predict` and `epochcast recommend` the other --pipeline"

    recipe: dict[str, Any]
    parameters: dict[str, Any]
    intervals: dict[str, ScaledInterval]
    training: dict[str, Any]
    accuracy: dict[str, dict[str, Any]]
    calibrations: list[Calibration]


class PaperManifest(Manifest):
    """The whole of ``model.json`` of the paper's pipeline."""

    SCHEMA = "epochcast.regressor.paper/v3"
    COMMAND = "epochcast fit regressor --pipeline paper"
    OTHERWISE = RegressorManifest.OTHERWISE

    parameters: dict[str, Any]
    columns: list[str]
    seconds: tuple[float, float]
    intervals: dict[str, ScaledInterval]
    training: dict[str, Any]
    accuracy: dict[str, dict[str, Any]]
