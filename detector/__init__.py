"""Epoch detection: arrays in, epochs (or steps) out; no input or output of its own."""
