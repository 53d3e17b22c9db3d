"""Latency prediction: one profile in, latency on every target GPU out.

What predicts is loaded when it is first used: a node's analyzer makes profiles, and must not load what only predictions need
(pandas, scikit-learn, CatBoost).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from epochcast.regressor.errors import InputError
from epochcast.regressor.gpus import Catalog, Gpu, load_catalog
from epochcast.regressor.prediction import Prediction
from epochcast.regressor.profile import Profile

if TYPE_CHECKING:
    from epochcast.regressor.paper_predictor import PaperPredictor
    from epochcast.regressor.predictor import LatencyPredictor

_LATER = {"PaperPredictor": "paper_predictor", "LatencyPredictor": "predictor"}
__all__ = ["Catalog", "Gpu", "InputError", "LatencyPredictor", "PaperPredictor", "Prediction", "Profile", "load_catalog"]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
