"""Collecting labels: networks run on the GPU at hand, a profiler records their kernels, occupancy is calculated from these."""
