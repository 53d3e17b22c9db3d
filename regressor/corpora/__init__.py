"""Training data: one adapter file per data set, each turning its rows into profiles."""

from pathlib import Path
from types import ModuleType

from epochcast.regressor.corpora import cloud_hw_trainpred, cross_gpu, profiles
from epochcast.regressor.corpora.csv_table import read_header
from epochcast.regressor.errors import InputError
from epochcast.regressor.profile import Profile

CSV_ADAPTERS: dict[str, ModuleType] = {"cloud_hw_trainpred": cloud_hw_trainpred, "cross_gpu": cross_gpu}
"""Modules that read a CSV with a column of their ``SIGNATURE`` by ``load``."""


def load_corpus(path: Path) -> list[Profile]:
    """Load training data of any known format.

    That is a CSV of cloud-hw-trainpred or of rates of equal work, or profiles as a folder, JSON or lines.

    Raises:
        InputError: the path is missing or its content is not what its format promises.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(
            f"no training data at {str(path)!r}; give a CSV of cloud-hw-trainpred or rates, or a folder of profiles or traces"
        )
    if not path.name.endswith((".csv", ".csv.gz")):
        return profiles.load(path)
    columns = read_header(path)
    for adapter in CSV_ADAPTERS.values():
        if columns.intersection(adapter.SIGNATURE):
            found: list[Profile] = adapter.load(path)
            return found
    known = "; ".join(f"{name} ({', '.join(adapter.SIGNATURE)}, …)" for name, adapter in CSV_ADAPTERS.items())
    raise InputError(f"{path.name} is not a CSV of a known corpus: {known}; give one of these, or your own profiles as JSON")


__all__ = ["CSV_ADAPTERS", "load_corpus"]
