"""Reads telemetry, runs detector and regressor, recommends instances; owns the trace and the ``epochcast`` command."""
