"""Recorded telemetry: a trace is read, its clock, its labels, its GPU, and the ranks of one job."""
