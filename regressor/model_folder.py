"""A fitted model of any kind as a folder: ``model.json`` next to ``arrays.npz``, no pickle, each change noticed.

``model.json`` has ``schema`` (the kind of the model and its version), ``command`` (what writes such models), ``epochcast`` (the
version that wrote it), ``libraries`` and their versions, what the kind itself keeps, ``arrays`` (SHA-256 of ``arrays.npz``) and
``fingerprint`` (SHA-256 of all the rest). A folder appears whole or not at all; one that is damaged, of another kind or of
another version is refused in one sentence, and what the checksums pass is believed (decision 0047).
"""

import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from epochcast.regressor.arrays import Arrays
from epochcast.regressor.errors import InputError

MANIFEST, ARRAYS = "model.json", "arrays.npz"

_LIBRARIES = ("numpy", "scikit-learn", "scipy")

# Most bytes of one file: the shipped ones take 40 kB and 1.2 MB. By choice.
_LIMIT = 100_000_000


class Manifest(BaseModel):
    """What every ``model.json`` has; each kind of model adds what it keeps in addition to its arrays."""

    SCHEMA: ClassVar[str]
    COMMAND: ClassVar[str]
    """The command that writes models of this kind."""
    OTHERWISE: ClassVar[str] = "name another model"
    """What to do with a model of another kind."""

    schema_: Annotated[str, Field(alias="schema")]
    command: str
    epochcast: str
    libraries: dict[str, str]
    arrays: str
    fingerprint: str


Kind = TypeVar("Kind", bound=Manifest)


def fingerprint(value: object) -> str:
    """Return the SHA-256 of JSON values, independent of key order."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def is_kind(folder: Path, kind: type[Manifest]) -> bool:
    """Whether the folder has a model of this kind, of any version; it may be damaged otherwise."""
    try:
        stored = json.loads(_content(folder / MANIFEST))
    except (OSError, ValueError):
        return False
    return _name(stored) == _name({"schema": kind.SCHEMA})


def _name(stored: object) -> str:
    """The kind of a model, without the version: ``epochcast.regressor`` of ``epochcast.regressor/v6``."""
    return str(stored.get("schema")).partition("/")[0] if isinstance(stored, dict) else ""


def require_place(folder: Path, kind: type[Manifest]) -> None:
    """See that a model of this kind can be written to ``folder``, before it is fitted.

    Raises:
        InputError: something else is there, or the folder around it cannot be written to.
    """
    folder = folder.resolve()
    free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    if not free and not is_kind(folder, kind):
        raise InputError(f"{str(folder)!r} exists but has no model of `{kind.COMMAND}`; name a new folder")
    around = next(each for each in folder.parents if each.exists())
    if not around.is_dir() or not os.access(around, os.W_OK):
        raise InputError(f"cannot write the model to {str(folder)!r}: {str(around)!r} is not writable; name another folder")


def save(folder: Path, kind: type[Manifest], state: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a model into ``folder``, through a folder next to it.

    Args:
        folder: a new or empty one, or of an older model of this kind.
        kind: of the model.
        state: the keys of ``kind`` that :class:`Manifest` does not have, as JSON values or dataclasses; NaN becomes null.
        arrays: of the model, by name.

    Raises:
        InputError: ``folder`` holds something else, the place cannot be written or is full, or the arrays are too large.
    """
    folder = folder.resolve()  # a link or "." cannot be renamed, its target can
    require_place(folder, kind)
    fresh = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        fresh.chmod(0o755)
        np.savez_compressed(fresh / ARRAYS, allow_pickle=False, **arrays)
        stored = _content(fresh / ARRAYS)
        manifest = {
            "schema": kind.SCHEMA,
            "command": kind.COMMAND,
            "epochcast": version("epochcast"),
            **json.loads(TypeAdapter(Any).dump_json(state)),
            "libraries": {name: version(name) for name in _LIBRARIES},
            "arrays": hashlib.sha256(stored).hexdigest(),
        }
        manifest["fingerprint"] = fingerprint(manifest)
        (fresh / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
        _swap(fresh, folder)
    except OSError as error:
        raise InputError(f"cannot write the model to {str(folder)!r}: {error.strerror or error}") from error
    finally:
        if fresh is not None:
            shutil.rmtree(fresh, ignore_errors=True)


def _swap(fresh: Path, folder: Path) -> None:
    """Put ``fresh`` in the place of ``folder``; a reader sees the old model, none for an instant, or the new one."""
    if not folder.exists():
        fresh.replace(folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
    folder.replace(old)
    try:
        fresh.replace(folder)
    except OSError:
        old.replace(folder)
        raise
    shutil.rmtree(old)


def load(folder: Path, kind: type[Kind]) -> tuple[Kind, dict[str, NDArray[np.generic]]]:
    """Return the manifest and the arrays that :func:`save` stored, once every byte is what it was.

    Raises:
        InputError: something is missing, of another kind or version, or was changed.
    """
    place = f"{MANIFEST} in {str(folder)!r}"
    try:
        content = _content(folder / MANIFEST)
    except OSError as error:
        raise InputError(
            f"there is no model in {str(folder)!r} ({MANIFEST}: {error.strerror}); train one with `{kind.COMMAND}`"
        ) from error
    try:
        stored = json.loads(content)
    except ValueError as error:
        raise InputError(f"{place} is not JSON: {error}; train the model again") from error
    _require_kind(stored, folder, kind)
    if stored.pop("fingerprint", None) != fingerprint(stored):
        raise InputError(f"{place} was changed after training (its fingerprint differs); train it again")
    try:
        manifest = kind.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{place} is of another version of epochcast ({key}: {first['msg']}); train it again") from error
    try:
        arrays = _content(folder / ARRAYS)
    except OSError as error:
        raise InputError(f"the model in {str(folder)!r} lacks {ARRAYS} ({error.strerror}); train it again") from error
    if hashlib.sha256(arrays).hexdigest() != manifest.arrays:
        raise InputError(f"{ARRAYS} in {str(folder)!r} was changed after training (its checksum differs); train it again")
    with np.load(io.BytesIO(arrays), allow_pickle=False) as kept:
        return manifest, dict(kept)


def _require_kind(stored: object, folder: Path, kind: type[Manifest]) -> None:
    """Refuse another kind of model, or another version."""
    known = stored if isinstance(stored, dict) else {}
    schema, command, writer = (known.get(key) for key in ("schema", "command", "epochcast"))
    if schema == kind.SCHEMA:
        return
    by = f" (epochcast {writer:.20} wrote it)" if isinstance(writer, str) else ""
    if isinstance(command, str) and command != kind.COMMAND:
        raise InputError(
            f"the model in {str(folder)!r} was written by `{command:.60}`, but a model of `{kind.COMMAND}` is needed: "
            f"{kind.OTHERWISE}{by}"
        )
    has = f"has schema {schema!r:.60}; this version reads {kind.SCHEMA!r}"
    raise InputError(f"the model in {str(folder)!r} {has}, train it again with `{kind.COMMAND}`{by}")


def _content(path: Path) -> bytes:
    if (size := path.stat().st_size) > _LIMIT:
        raise InputError(f"the model file {str(path)!r} takes {size} bytes, more than {_LIMIT}; train again, on less data")
    return path.read_bytes()
