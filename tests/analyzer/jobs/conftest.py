"""A server that answers as a test says."""

from ..telemetry.conftest import serve

__all__ = ["serve"]
