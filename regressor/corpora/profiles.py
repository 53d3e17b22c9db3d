"""Our own profiles: a folder of ``*.json``, one JSON file, or JSON lines (``*.jsonl``)."""

import json
from pathlib import Path

from epochcast.regressor.errors import InputError
from epochcast.regressor.profile import Profile
from epochcast.regressor.profile_json import read_profile


def load(path: Path) -> list[Profile]:
    """Read profiles in the order of their names or lines.

    Raises:
        InputError: nothing is there, or one of them is not a profile (the message says which).
    """
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        if not files:
            raise InputError(f"the folder {str(path)!r} holds no *.json; put profiles there")
        return [_read(file) for file in files]
    if path.suffix != ".jsonl":
        return [_read(path)]
    profiles = []
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {str(path)!r}: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            profiles.append(read_profile(json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise InputError(f"line {number} of {str(path)!r} is not a profile: {error}") from error
    if not profiles:
        raise InputError(f"{str(path)!r} holds no profile; write one per line")
    return profiles


def _read(path: Path) -> Profile:
    try:
        return read_profile(json.loads(path.read_text("utf-8")))
    except OSError as error:
        raise InputError(f"cannot read the profile {str(path)!r}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path.name} is not a profile: {error}") from error
