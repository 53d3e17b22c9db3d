"""Measuring and fitting for the white box of distributed training."""
