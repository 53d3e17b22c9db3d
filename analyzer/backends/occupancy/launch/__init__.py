"""Occupancy from launch configurations: what a GPU's SMs can hold, and the calculation over a list of kernels."""
