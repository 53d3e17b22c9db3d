"""The label file ``NAME.json`` next to a trace (``epoch_starts``, ``epoch_ends`` as unix seconds, ``training``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from epochcast.analyzer.errors import InputError
from epochcast.detector.labels import Labels


def read_labels(path: Path) -> Labels:
    """Read a label file; InputError with one sentence if it is missing, not JSON, or not labels."""
    try:
        return Labels.from_json(read_label_file(path))
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{str(path)!r}: {error}") from error


def read_label_file(path: Path) -> dict[str, Any]:
    """The object in a label file; InputError if there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no label file {str(path)!r} next to the trace") from None
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, or too long an integer
        raise InputError(f"{str(path)!r} is not a readable label file: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{str(path)!r} is a JSON {type(content).__name__}, not an object with epoch_starts and epoch_ends")
    return content
