"""Labelled traces, and which of their workloads to measure on a new GPU first."""
