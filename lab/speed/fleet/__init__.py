"""Measurements of fleet."""
