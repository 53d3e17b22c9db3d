"""Measuring and fitting for the white box of occupancy."""
