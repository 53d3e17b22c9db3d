"""Epoch detection: arrays in, epochs (or steps) out; no input or output of its own."""

from .detection import detect
from .epochs import Cycle, Detection, Epoch, Job, Kind, Reason, Stretch, Unit
from .errors import InputError
from .job import JobDetection, detect_job
from .methods import METHODS

__all__ = [
    "METHODS",
    "Cycle",
    "Detection",
    "Epoch",
    "InputError",
    "Job",
    "JobDetection",
    "Kind",
    "Reason",
    "Stretch",
    "Unit",
    "detect",
    "detect_job",
]
