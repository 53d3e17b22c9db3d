"""Epoch detection: arrays in, epochs (or steps) out; it reads and writes no files."""

from .detection import detect
from .epochs import Cycle, Detection, Epoch, JobEpochs, Kind, Reason, Stretch, Unit, cycle_of, unit_of
from .errors import InputError
from .job import JobDetection, detect_job, elected
from .methods import METHODS

__all__ = [
    "METHODS",
    "Cycle",
    "Detection",
    "Epoch",
    "InputError",
    "JobDetection",
    "JobEpochs",
    "Kind",
    "Reason",
    "Stretch",
    "Unit",
    "cycle_of",
    "detect",
    "detect_job",
    "elected",
    "unit_of",
]
