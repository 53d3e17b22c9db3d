"""Public tables of measured jobs, one adapter file each, as the profiles that the product is fitted to.

    python -m lab.corpora TABLE... > profiles.jsonl

An adapter is a module with ``load(path)`` and ``SIGNATURE``, columns that identify its file.
"""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from epochcast.analyzer.corpus.training_data import load_training_data
from epochcast.regressor import Catalog, InputError, Profile
from lab.corpora import cloud_hw_trainpred, cross_gpu, profet
from lab.corpora.csv_table import read_header

ADAPTERS: dict[str, ModuleType] = {"cloud_hw_trainpred": cloud_hw_trainpred, "cross_gpu": cross_gpu, "profet": profet}


def load_corpus(path: Path) -> list[Profile]:
    """Read a table, a CSV, plain or packed.

    Raises:
        InputError: it is missing or unreadable, no adapter knows it, or its content is not what its format promises.
    """
    columns = read_header(path)
    for adapter in ADAPTERS.values():
        if columns.intersection(adapter.SIGNATURE):
            found: list[Profile] = adapter.load(path)
            return found
    known = "; ".join(f"{name} ({', '.join(adapter.SIGNATURE)}, …)" for name, adapter in ADAPTERS.items())
    raise InputError(f"{path.name} is not a CSV of a known corpus: {known}; give one of these")


def load_profiles(paths: Sequence[Path], catalog: Catalog) -> tuple[list[Profile], list[str]]:
    """The profiles of tables, and of all that the product is fitted to; and what of that was left out.

    Raises:
        InputError: of either room: nothing is there, or a file is not what it must be.
    """
    others = [path for path in paths if not path.name.endswith((".csv", ".csv.gz"))]
    profiles = [profile for path in paths if path not in others for profile in load_corpus(path)]
    more, left_out = load_training_data(others, catalog) if others else ([], [])
    return profiles + more, left_out
