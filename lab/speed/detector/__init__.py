"""Measurements of detector."""
