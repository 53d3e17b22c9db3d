"""Simulated 10 Hz telemetry with true epoch marks; everything derived from it must be called *simulated*."""

from epochcast.detector.simulator.classes import CLASSES, ClassSpec, simulate_class
from epochcast.detector.simulator.textbook import simulate
from epochcast.detector.simulator.trace import SimulatedTrace

__all__ = ["CLASSES", "ClassSpec", "SimulatedTrace", "simulate", "simulate_class"]
