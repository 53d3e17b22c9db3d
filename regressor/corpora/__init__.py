"""Training data: one adapter file per data set, each turning its rows into profiles."""

from collections.abc import Callable
from pathlib import Path

from ..errors import InputError
from ..profile import Profile
from . import cloud_hw_trainpred, profet, profiles, run_table
from .csv_table import read_table

CORPORA: dict[str, Callable[[Path], list[Profile]]] = {
    "cloud_hw_trainpred": cloud_hw_trainpred.load,
    "profet": profet.load,
    "profiles": profiles.load,
    "run_table": run_table.load,
}


def load_corpus(path: Path) -> list[Profile]:
    """Load training data of any known format.

    That is a CSV of cloud-hw-trainpred or PROFET, profiles as a folder, JSON or lines, or a campaign's corpus as its folder or
    its table.

    Raises:
        InputError: the path is missing or its content is not what its format promises.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(
            f"no training data at {str(path)!r}; give a CSV of cloud-hw-trainpred or PROFET, a folder of profiles, "
            "or the corpus of a campaign"
        )
    return CORPORA[_format(path)](path)


def _format(path: Path) -> str:
    """The key of :data:`CORPORA`; the two CSV files are told apart by their columns."""
    if run_table.table_file(path).suffix == ".parquet" and run_table.table_file(path).is_file():
        return "run_table"
    if not path.name.endswith((".csv", ".csv.gz")):
        return "profiles"
    columns = set(read_table(path, rows=0).columns)
    for name, adapter in (("cloud_hw_trainpred", cloud_hw_trainpred), ("profet", profet)):
        if columns.intersection(adapter.SIGNATURE):
            return name
    raise InputError(
        f"{path.name} is a CSV of neither cloud-hw-trainpred ({', '.join(cloud_hw_trainpred.SIGNATURE)}, …) "
        f"nor PROFET ({', '.join(profet.SIGNATURE)}, …); give one of them, or your own profiles as JSON"
    )


__all__ = ["CORPORA", "load_corpus"]
