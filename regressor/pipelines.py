"""The two pipelines from telemetry to a prediction: Epochcast's own, and the black-box paper's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from epochcast.regressor.gpus import Catalog
    from epochcast.regressor.paper_predictor import PaperPredictor
    from epochcast.regressor.predictor import LatencyPredictor

Pipeline = Literal["default", "paper"]
"""How epochs are found, and which model predicts; ``paper``: Luminol and Savitzky-Golay passes, and the stack."""

Predictor: TypeAlias = "LatencyPredictor | PaperPredictor"


def load_predictor(pipeline: Pipeline, model: Path | None, catalog: Catalog) -> Predictor:
    """The pipeline's model in a folder, or the shipped one; raises InputError where the folder has no such model."""
    if pipeline == "default":
        from epochcast.regressor.predictor import LatencyPredictor

        return LatencyPredictor.load(model, catalog)
    from epochcast.regressor.paper_predictor import PaperPredictor

    return PaperPredictor.load(model, catalog)
