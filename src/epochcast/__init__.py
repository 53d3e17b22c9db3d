"""Epochcast: how long a training job would take, and cost, on every other GPU, from hardware telemetry alone.

The four rooms stand at the top level of the repository (``agent/``, ``detector/``, ``regressor/``, ``analyzer/``) and are
linked here, so that they import as ``epochcast.agent`` and so on (``docs/decisions/0001-layout.md``).
"""

__version__: str


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # takes longer to load than `epochcast --help` else does

    return version("epochcast")
