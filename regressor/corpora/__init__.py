"""Training data: one adapter file per data set, each turning its rows into profiles."""

from collections.abc import Callable
from pathlib import Path

from ..errors import InputError
from ..profile import Profile
from . import cloud_hw_trainpred, profiles

CORPORA: dict[str, Callable[[Path], list[Profile]]] = {
    "cloud_hw_trainpred": cloud_hw_trainpred.load,
    "profiles": profiles.load,
}


def load_corpus(path: Path) -> list[Profile]:
    """Load training data of any known format: a CSV of cloud-hw-trainpred, or profiles as a folder, JSON or JSON lines.

    Raises:
        InputError: the path is missing or its content is not what its format promises.
    """
    path = Path(path)
    if not path.exists():
        raise InputError(f"no training data at {str(path)!r}; give a CSV of cloud-hw-trainpred or a folder of profiles")
    return CORPORA["cloud_hw_trainpred" if path.name.endswith((".csv", ".csv.gz")) else "profiles"](path)


__all__ = ["CORPORA", "load_corpus"]
