"""Simulated 10 Hz telemetry with true epoch marks; everything derived from it must be called *simulated*."""

from lab.simulator.classes import CLASSES, ClassSpec, simulate_class
from lab.simulator.textbook import simulate
from lab.simulator.trace import SimulatedTrace

__all__ = ["CLASSES", "ClassSpec", "SimulatedTrace", "simulate", "simulate_class"]
