"""Operator times kept on disk from one run to the next, by device, software and operator."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from epochcast.common.files import write_whole
from lab.convmeter.device import Timing


def cache_folder() -> Path:
    """``epochcast`` in the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``); it may not be there yet."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "epochcast"


class ProfileCache:
    """Timings in one JSON file; the default is ``epochcast/operator_times.json`` in the user's cache folder."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or cache_folder() / "operator_times.json"
        self._kept: dict[str, dict[str, dict[str, float]]] = json.loads(self.path.read_text()) if self.path.exists() else {}

    def get(self, device: str, operators: Iterable[str]) -> dict[str, Timing]:
        """What is known of these operators on that device, by operator."""
        own = self._kept.get(device, {})
        return {operator: Timing(**own[operator]) for operator in operators if operator in own}  # type: ignore[arg-type]

    def put(self, device: str, timings: Mapping[str, Timing]) -> None:
        """Keep timings by operator; an older one of the same operator is replaced."""
        self._kept.setdefault(device, {}).update({operator: asdict(timing) for operator, timing in timings.items()})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, lambda file: file.write(json.dumps(self._kept).encode()))
