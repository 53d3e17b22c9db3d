"""Epoch detection: arrays in, epochs (or steps) out; it reads and writes no files."""

from epochcast.detector.detection import detect
from epochcast.detector.epochs import Cycle, Detection, Epoch, JobEpochs, Kind, Reason, Stretch, Unit, cycle_of, unit_of
from epochcast.detector.errors import InputError
from epochcast.detector.job import JobDetection, detect_job, elected
from epochcast.detector.methods import METHODS

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
