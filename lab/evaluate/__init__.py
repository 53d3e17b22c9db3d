"""Accuracy by the papers' and our protocols: ``python -m lab.evaluate NAME``."""
