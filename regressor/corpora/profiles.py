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
    texts: dict[str, str] = {}
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        try:
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the profile {str(file)!r}: {error}") from error
        if file.suffix == ".jsonl":
            texts |= {f"line {number} of {str(file)!r}": line for number, line in enumerate(text.splitlines(), start=1)}
        else:
            texts[file.name] = text or "nothing"
    profiles = []
    for name, text in texts.items():
        if text.strip():
            try:
                profiles.append(read_profile(json.loads(text)))
            except (ValueError, RecursionError) as error:
                raise InputError(f"{name} is not a profile: {error}") from error
    if not profiles:
        raise InputError(f"{str(path)!r} holds no profile: a folder holds *.json, a file *.jsonl one in each line")
    return profiles
