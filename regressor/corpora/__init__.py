"""Training data: one adapter file per data set, each turning its rows into profiles."""

from collections.abc import Callable
from pathlib import Path

from epochcast.regressor.corpora import cloud_hw_trainpred, cross_gpu, profet, profiles, run_table
from epochcast.regressor.corpora.csv_table import read_table
from epochcast.regressor.errors import InputError
from epochcast.regressor.profile import Profile

CORPORA: dict[str, Callable[[Path], list[Profile]]] = {
    "cloud_hw_trainpred": cloud_hw_trainpred.load,
    "cross_gpu": cross_gpu.load,
    "profet": profet.load,
    "profiles": profiles.load,
    "run_table": run_table.load,
}


def load_corpus(path: Path) -> list[Profile]:
    """Load training data of any known format.

    That is a CSV of cloud-hw-trainpred, of PROFET or of rates of equal work, profiles as a folder, JSON or lines, or the corpus
    of a campaign as its folder or its table.

    Raises:
        InputError: the path is missing or its content is not what its format promises.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(
            f"no training data at {str(path)!r}; give a CSV of cloud-hw-trainpred, PROFET or rates, a folder of profiles, "
            "or the corpus of a campaign"
        )
    return CORPORA[_format(path)](path)


def _format(path: Path) -> str:
    """The key of :data:`CORPORA`; the CSV files differ by their columns."""
    if run_table.table_file(path).suffix == ".parquet" and run_table.table_file(path).is_file():
        return "run_table"
    if not path.name.endswith((".csv", ".csv.gz")):
        return "profiles"
    columns = set(read_table(path, rows=0).columns)
    signatures = {adapter.__name__.rpartition(".")[2]: adapter.SIGNATURE for adapter in (cloud_hw_trainpred, profet, cross_gpu)}
    for name, signature in signatures.items():
        if columns.intersection(signature):
            return name
    known = "; ".join(f"{name} ({', '.join(signature)}, …)" for name, signature in signatures.items())
    raise InputError(f"{path.name} is not a CSV of a known corpus: {known}; give one of these, or your own profiles as JSON")


__all__ = ["CORPORA", "load_corpus"]
