"""Latency prediction: one profile in, latency on every target GPU out."""

from .corpora import load_corpus
from .errors import InputError
from .evaluation import Evaluation, evaluate, evaluate_split
from .gpus import Catalog, Gpu, load_catalog
from .prediction import Prediction
from .predictor import Predictor
from .profile import Profile
from .recipes import RECIPES

__all__ = [
    "RECIPES",
    "Catalog",
    "Evaluation",
    "Gpu",
    "InputError",
    "Prediction",
    "Predictor",
    "Profile",
    "evaluate",
    "evaluate_split",
    "load_catalog",
    "load_corpus",
]
