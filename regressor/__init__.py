"""Latency prediction: one profile in, latency on every target GPU out.

Names are loaded when they are first used: a node's analyzer makes profiles, and must not load what only predictions need
(pandas, scikit-learn, CatBoost).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .corpora import load_corpus as load_corpus
    from .errors import InputError as InputError
    from .evaluation import Evaluation as Evaluation
    from .evaluation import evaluate as evaluate
    from .evaluation import evaluate_split as evaluate_split
    from .gpus import Catalog as Catalog
    from .gpus import Gpu as Gpu
    from .gpus import load_catalog as load_catalog
    from .paper_predictor import PaperPredictor as PaperPredictor
    from .prediction import Prediction as Prediction
    from .predictor import LatencyPredictor as LatencyPredictor
    from .profile import Profile as Profile
    from .recipes import RECIPES as RECIPES

_MODULES = {
    "RECIPES": "recipes",
    "Catalog": "gpus",
    "Evaluation": "evaluation",
    "Gpu": "gpus",
    "InputError": "errors",
    "PaperPredictor": "paper_predictor",
    "Prediction": "prediction",
    "LatencyPredictor": "predictor",
    "Profile": "profile",
    "evaluate": "evaluation",
    "evaluate_split": "evaluation",
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
