"""``python -m lab.fit NAME``: fit a white box to measurements."""
