"""Fitted models of a backend, by the names that the configuration gives their folders: a question never has a path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epochcast.analyzer.errors import InputError


def folders(backend: str, own: Mapping[str, Any]) -> dict[str, Path]:
    """The table ``models`` of ``[backends.NAME]``: name -> folder.

    Raises:
        InputError: the table has something else, or a folder that is not there.
    """
    if unknown := sorted(set(own) - {"models"}):
        raise InputError(f"[backends.{backend}] has the unknown setting {unknown[0]!r}; it takes models = {{NAME = DIR}}")
    models = own.get("models", {})
    if not isinstance(models, Mapping) or not all(isinstance(folder, str) for folder in models.values()):
        raise InputError(f"[backends.{backend}] has models {models!r:.60}; give names and folders, models = {{my-gpu = DIR}}")
    named = {str(name): Path(folder) for name, folder in models.items()}
    for name, folder in named.items():
        if not folder.is_dir():
            raise InputError(
                f"[backends.{backend}] has the model {name!r} in {str(folder)!r}, which is not a folder; correct the path"
            )
    return named


def folder_named(known: Mapping[str, Path], name: str | None) -> Path:
    """The folder of a model; where none is named, of the only one.

    Raises:
        InputError: no such model, or several and none named.
    """
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name is None or name not in known:
        which = "several models are configured" if name is None else f"no model {name!r:.60} is configured"
        raise InputError(f"{which}; name one of {', '.join(known) or 'none'}")
    return known[name]
