"""Measuring for the white box of ConvNets."""
