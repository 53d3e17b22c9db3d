"""Measurements of occupancy."""
