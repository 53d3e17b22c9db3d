"""Epochcast: how long a training job would take, and cost, on every other GPU, from hardware telemetry alone.

The four rooms stand at the top level of the repository (``agent/``, ``detector/``, ``regressor/``, ``analyzer/``) and are
linked here, so that they import as ``epochcast.agent`` and so on (``docs/decisions/0001-layout.md``).
"""

from importlib.metadata import version

__version__ = version("epochcast")
