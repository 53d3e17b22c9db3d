"""Accuracy on rows that no fit saw: who leaves together, fits on the others, and error figures overall and by group."""

from lab.evaluate.common.held_out import HeldOut
from lab.evaluate.common.splits import Progress, Rows, Split, hold_out, leave_each_out, random_folds

__all__ = ["HeldOut", "Progress", "Rows", "Split", "hold_out", "leave_each_out", "random_folds"]
