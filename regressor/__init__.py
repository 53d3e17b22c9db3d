"""Latency prediction: one profile in, latency on every target GPU out.

Names are loaded when they are first used: a node's analyzer makes profiles, and must not load what only predictions need
(pandas, scikit-learn, CatBoost).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epochcast.regressor.corpora import load_corpus as load_corpus
    from epochcast.regressor.errors import InputError as InputError
    from epochcast.regressor.gpus import Catalog as Catalog
    from epochcast.regressor.gpus import Gpu as Gpu
    from epochcast.regressor.gpus import load_catalog as load_catalog
    from epochcast.regressor.paper_predictor import PaperPredictor as PaperPredictor
    from epochcast.regressor.prediction import Prediction as Prediction
    from epochcast.regressor.predictor import LatencyPredictor as LatencyPredictor
    from epochcast.regressor.profile import Profile as Profile

_MODULES = {
    "Catalog": "gpus",
    "Gpu": "gpus",
    "InputError": "errors",
    "PaperPredictor": "paper_predictor",
    "Prediction": "prediction",
    "LatencyPredictor": "predictor",
    "Profile": "profile",
    "load_catalog": "gpus",
    "load_corpus": "corpora",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
