"""Measuring inference and the phases of training on the device at hand: the points that forms are fitted on (section 3.4)."""
