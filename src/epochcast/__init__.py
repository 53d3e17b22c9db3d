"""Epochcast: how long a training job would take, and cost, on every other GPU, from hardware telemetry alone.

    import epochcast
    job = epochcast.read("run.parquet")
    job.epochs, job.predict(), job.recommend(deadline="10h")

The rooms are at the top level of the repository (``agent/``, ``analyzer/``, ``common/``, ``detector/``, ``regressor/``) and
are linked here, so that they import as ``epochcast.agent`` and so on (``decision 0001``).
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epochcast.analyzer.notebook import Epochs, Job, Predictions, Recommendations, detect, read

__version__: str

_OF_NOTEBOOKS = ("Epochs", "Job", "Predictions", "Recommendations", "detect", "read")

__all__ = ["Epochs", "Job", "Predictions", "Recommendations", "__version__", "detect", "read"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name in _OF_NOTEBOOKS:  # with pandas and more, which `epochcast --help` can do without
        from epochcast.analyzer import notebook

        return getattr(notebook, name)
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # takes longer to load than `epochcast --help` else does

    return version("epochcast")
