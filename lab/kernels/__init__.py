"""Occupancy of kernels that a profiler recorded, or that a trace counted: ``python -m lab.kernels FILE``."""
