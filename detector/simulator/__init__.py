"""Simulated 10 Hz telemetry with true epoch marks; everything derived from it must be called *simulated*."""

from .classes import CLASSES, ClassSpec, simulate_class
from .textbook import simulate
from .trace import SimulatedTrace

__all__ = ["CLASSES", "ClassSpec", "SimulatedTrace", "simulate", "simulate_class"]
