"""Measurements of regressor."""
