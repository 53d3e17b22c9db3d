"""Measurements of distributed."""
