"""A fitted model of any kind as a folder: ``model.json`` next to ``arrays.npz``, no pickle, each change noticed.

``model.json`` has ``schema`` (the kind of the model and its version), ``command`` (what writes such models), ``epochcast`` (the
version that wrote it), what the kind itself keeps, ``arrays`` (SHA-256 of ``arrays.npz``) and ``fingerprint`` (SHA-256 of all
the rest). Arrays of a part of a model are named ``PART.NAME``. A folder appears whole or not at all; one that is damaged, of
another kind or of another version is refused in one sentence, and what the checksums pass is believed (decision 0047).
"""

import hashlib
import io
import json
import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, TypeAdapter

from epochcast.regressor.errors import InputError

MANIFEST, ARRAYS = "model.json", "arrays.npz"

# Most bytes of one file: the shipped ones take 40 kB and 3.1 MB. By choice.
_LIMIT = 100_000_000


class Manifest(BaseModel):
    """What every ``model.json`` has; each kind of model adds what it keeps in addition to its arrays."""

    SCHEMA: ClassVar[str]
    COMMAND: ClassVar[str]
    """The command that writes models of this kind."""

    schema_: Annotated[str, Field(alias="schema")]
    command: str
    epochcast: str
    arrays: str
    fingerprint: str


Kind = TypeVar("Kind", bound=Manifest)


def fingerprint(value: object) -> str:
    """Return the SHA-256 of JSON values, independent of key order."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def require_place(folder: Path, kind: type[Manifest]) -> None:
    """See that a model of this kind, of any version, can be written to ``folder``, before it is fitted.

    Raises:
        InputError: something else is there, or the folder around it cannot be written to.
    """
    folder = folder.resolve()
    if folder.exists() and not (folder.is_dir() and (not any(folder.iterdir()) or _is_kind(folder, kind))):
        raise InputError(f"{str(folder)!r} exists but has no model of `{kind.COMMAND}`; name a new folder")
    around = next(each for each in folder.parents if each.exists())
    if not around.is_dir() or not os.access(around, os.W_OK):
        raise InputError(f"cannot write the model to {str(folder)!r}: {str(around)!r} is not writable; name another folder")


def _is_kind(folder: Path, kind: type[Manifest]) -> bool:
    """Whether the folder has a model of this kind, of any version; it may be damaged otherwise."""
    try:
        schema = str(_stored(folder).get("schema"))
    except (OSError, ValueError):
        return False
    return schema.partition("/")[0] == kind.SCHEMA.partition("/")[0]


def save(folder: Path, kind: type[Manifest], state: Mapping[str, Any]) -> None:
    """Write a model into ``folder``, through a folder next to it; a reader sees the old model, none for an instant, or the new.

    Args:
        folder: a new or empty one, or of an older model of this kind.
        kind: of the model.
        state: the keys of ``kind`` that :class:`Manifest` does not have, as JSON values or dataclasses (NaN becomes null), and
            arrays, anywhere in nested mappings.

    Raises:
        InputError: ``folder`` holds something else, the place cannot be written or is full, or the arrays are too large.
    """
    folder = folder.resolve()  # a link or "." cannot be renamed, its target can
    require_place(folder, kind)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent, ignore_cleanup_errors=True) as beside:
            fresh, old = Path(beside, "new"), Path(beside, "old")
            fresh.mkdir()
            plain, arrays = _taken_apart(state)
            np.savez_compressed(fresh / ARRAYS, allow_pickle=False, **arrays)
            manifest = {
                "schema": kind.SCHEMA,
                "command": kind.COMMAND,
                "epochcast": version("epochcast"),
                **json.loads(TypeAdapter(Any).dump_json(plain)),
                "arrays": hashlib.sha256(_content(fresh / ARRAYS)).hexdigest(),
            }
            manifest["fingerprint"] = fingerprint(manifest)
            (fresh / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
            if folder.exists():
                folder.replace(old)
            try:
                fresh.replace(folder)
            except OSError:
                if old.exists():
                    old.replace(folder)
                raise
    except OSError as error:
        raise InputError(f"cannot write the model to {str(folder)!r}: {error.strerror or error}") from error


def load(folder: Path, kind: type[Kind]) -> tuple[Kind, dict[str, Any]]:
    """Return the manifest and the state that :func:`save` stored, once every byte is what it was.

    Raises:
        InputError: something is missing, of another kind or version, or was changed.
    """
    place = f"{MANIFEST} in {str(folder)!r}"
    try:
        stored = _stored(folder)
    except OSError as error:
        raise InputError(
            f"there is no model in {str(folder)!r} ({MANIFEST}: {error.strerror}); train one with `{kind.COMMAND}`"
        ) from error
    if (schema := stored.get("schema")) != kind.SCHEMA:
        by = f" (epochcast {stored.get('epochcast')!s:.20}, `{stored.get('command')!s:.60}`)"
        raise InputError(
            f"the model in {str(folder)!r} has schema {schema!r:.60}{by}; this version reads {kind.SCHEMA!r}: train it with "
            f"`{kind.COMMAND}`, or name another model"
        )
    if stored.get("fingerprint") != fingerprint({key: value for key, value in stored.items() if key != "fingerprint"}):
        raise InputError(f"{place} was changed after training (its fingerprint differs); train it again")
    manifest = kind.model_validate_json(json.dumps(stored))
    try:
        arrays = _content(folder / ARRAYS)
    except OSError as error:
        raise InputError(f"the model in {str(folder)!r} lacks {ARRAYS} ({error.strerror}); train it again") from error
    if hashlib.sha256(arrays).hexdigest() != manifest.arrays:
        raise InputError(f"{ARRAYS} in {str(folder)!r} was changed after training (its checksum differs); train it again")
    with np.load(io.BytesIO(arrays), allow_pickle=False) as kept:
        for name, array in kept.items():
            *parts, last = name.split(".")
            inside = stored
            for part in parts:
                inside = inside.setdefault(part, {})
            inside[last] = array
    return manifest, stored


def _stored(folder: Path) -> dict[str, Any]:
    """What ``model.json`` has; nothing where that is no object."""
    content = _content(folder / MANIFEST)
    try:
        stored = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{MANIFEST} in {str(folder)!r} is not JSON: {error}; train the model again") from error
    return stored if isinstance(stored, dict) else {}


def _content(path: Path) -> bytes:
    if (size := path.stat().st_size) > _LIMIT:
        raise InputError(f"the model file {str(path)!r} takes {size} bytes, more than {_LIMIT}; train again, on less data")
    return path.read_bytes()


def _taken_apart(state: Mapping[str, Any], before: str = "") -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A state without its arrays, and these by the names of the mappings around them."""
    plain: dict[str, Any] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for name, one in state.items():
        if isinstance(one, np.ndarray):
            arrays[before + name] = one
        elif isinstance(one, Mapping):
            rest, more = _taken_apart(one, f"{before}{name}.")
            arrays |= more
            plain |= {name: rest} if rest or not more else {}
        else:
            plain[name] = one
    return plain, arrays
