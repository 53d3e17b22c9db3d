"""Dynp of `ruptures`: dynamic programming for the cheapest segmentation with a given number of change points."""

from lab.rivals.detection import change_points

# One call finds the best segmentations of up to k change points.
detect = change_points.by_number("dynp", change_points.kernel_search)
