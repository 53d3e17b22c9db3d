"""A fitted predictor as a folder: ``occupancy.json`` beside ``occupancy.npz``; no pickle, and damage is noticed."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ...errors import InputError
from ...files import write_whole
from .features import EDGE_NAMES, NODE_NAMES
from .fitted_on import FittedOn
from .points import LABELS, TARGETS
from .reliability import Reliability

SCHEMA = "epochcast-occupancy/1"
MANIFEST, ARRAYS = "occupancy.json", "occupancy.npz"
_REMEDY = "train anew with `epochcast train occupancy`"

Arrays = Mapping[str, NDArray[Any]]


def _features() -> str:
    """Fingerprint of what a graph is told by: fitted numbers belong to these columns."""
    return hashlib.sha256("\n".join((*NODE_NAMES, "", *EDGE_NAMES)).encode()).hexdigest()


def _one_of(name: str, known: Sequence[str]) -> str:
    if name not in known:
        raise ValueError(f"{name!r} is none of {', '.join(known)}")
    return name


class Manifest(BaseModel):
    """The whole of ``occupancy.json``; attributes as of :class:`.predictor.Predictor`, ``state`` is the model's own."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    schema_: Annotated[str, Field(alias="schema")] = SCHEMA
    epochcast: str = Field(default_factory=lambda: version("epochcast"))
    features: str = Field(default_factory=_features)
    model: str
    target: Annotated[str, AfterValidator(lambda name: _one_of(name, TARGETS))]
    labels: Annotated[str, AfterValidator(lambda name: _one_of(name, LABELS))]
    settings: dict[str, Any]
    fitted_on: FittedOn
    reliability: Reliability | None
    state: dict[str, Any]
    arrays: str = ""


def make_folder(folder: Path) -> None:
    """The folder and those above it, where they are not there.

    Raises:
        InputError: it cannot be made, or not be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {str(folder)!r}: {error.strerror}; name another") from error
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write to the folder {str(folder)!r}; name another")


def write(folder: Path, manifest: Manifest, arrays: Arrays) -> None:
    """Write both files, the manifest with the checksum of the arrays last.

    Raises:
        InputError: the folder cannot be made or written to.
    """
    make_folder(folder)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    content = buffer.getvalue()
    write_whole(folder / ARRAYS, lambda file: file.write(content))
    whole = manifest.model_copy(update={"arrays": hashlib.sha256(content).hexdigest()})
    text = whole.model_dump_json(by_alias=True, indent=1)
    write_whole(folder / MANIFEST, lambda file: file.write(text.encode()))


def read(folder: Path) -> tuple[Manifest, dict[str, NDArray[Any]]]:
    """Read what :func:`write` wrote.

    Raises:
        InputError: a file is missing, damaged, or of another version.
    """
    path = folder / MANIFEST
    try:
        table = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it is not JSON ({error})"
        raise InputError(f"cannot read {str(path)!r}: {reason}; make it by `epochcast train occupancy`") from error
    if not isinstance(table, dict) or table.get("schema") != SCHEMA:
        raise InputError(f"{str(path)!r} is no file of `epochcast train occupancy` (schema {SCHEMA}); {_REMEDY}")
    try:
        manifest = Manifest.model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{str(path)!r} is damaged ({where}: {first['msg']}); {_REMEDY}") from error
    if manifest.features != _features():
        raise InputError(
            f"the predictor in {str(folder)!r} was fitted by epochcast {manifest.epochcast:.20} on other features of graphs "
            f"than this version ({version('epochcast')}) has; {_REMEDY}"
        )
    return manifest, _arrays(folder / ARRAYS, manifest.arrays)


def _arrays(path: Path, checksum: str) -> dict[str, NDArray[Any]]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}; {_REMEDY}") from error
    if hashlib.sha256(content).hexdigest() != checksum:
        raise InputError(f"{str(path)!r} was changed after training (its checksum differs); {_REMEDY}")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError) as error:
        raise InputError(f"{str(path)!r} holds no arrays ({error}); {_REMEDY}") from error
