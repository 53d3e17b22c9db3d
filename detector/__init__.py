"""Epoch detection: arrays in, epochs (or steps) out; no input or output of its own."""

from .detection import detect
from .epochs import Detection, Epoch, Job, Reason, Stretch
from .errors import InputError
from .methods import METHODS

__all__ = ["METHODS", "Detection", "Epoch", "InputError", "Job", "Reason", "Stretch", "detect"]
