"""Measurements of convmeter."""
