"""A model as a folder: ``model.json`` beside array files, no pickle, each change noticed (docs/decisions/0005)."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .errors import InputError
from .manifest import PAPER_SCHEMA, SCHEMA, checked

MANIFEST = "model.json"
SHIPPED = Path(__file__).parent / "models" / "default"
"""The model that comes with the package."""

_LIBRARIES = ("numpy", "scikit-learn", "scipy")

_RECIPES = {SCHEMA: "default", PAPER_SCHEMA: "paper"}

# Most bytes of one file: the shipped ones take 20 kB and less than 1 MB. By choice.
_MANIFEST_LIMIT = 10_000_000
_FILE_LIMIT = 100_000_000


def fingerprint(value: object) -> str:
    """Return the SHA-256 of JSON values, independent of key order."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def write(folder: Path, state: dict[str, Any], save: Callable[[Path], None], schema: str = SCHEMA) -> None:
    """Write ``state`` and the files of ``save`` into ``folder``, through a folder beside it.

    Args:
        folder: a new or empty one, or an older model's.
        state: the keys of :class:`~epochcast.regressor.manifest.Manifest` that the model itself knows.
        save: writes the model's other files into the folder that it is given.
        schema: of the recipe's manifest.

    Raises:
        InputError: ``folder`` exists and is no model, the place cannot be written or is full, or ``state`` is not one.
    """
    folder = folder.resolve()  # a link or "." cannot be renamed, what it stands for can
    if folder.exists() and not (folder / MANIFEST).is_file() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(f"{str(folder)!r} exists and holds no model; name a new folder")
    fresh = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        fresh.chmod(0o755)
        save(fresh)
        manifest = {
            "schema": schema,
            "epochcast": version("epochcast"),
            **state,
            "libraries": {name: version(name) for name in _LIBRARIES},
            "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(fresh.iterdir())},
        }
        manifest["fingerprint"] = fingerprint(manifest)
        text = json.dumps(manifest, indent=1) + "\n"
        checked(text, MANIFEST, schema)  # what could not be read again is not written
        (fresh / MANIFEST).write_text(text, "utf-8")
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


def read(folder: Path, schema: str = SCHEMA) -> dict[str, Any]:
    """Return the checked state that :func:`write` stored, once every byte of its files is what it was.

    Raises:
        InputError: something is missing, of another schema or recipe, was changed, or holds what no model can.
    """
    place = f"{MANIFEST} in {str(folder)!r}"
    try:
        content = _content(folder / MANIFEST, _MANIFEST_LIMIT)
    except OSError as error:
        raise InputError(
            f"there is no model in {str(folder)!r} ({MANIFEST}: {error.strerror}); train one with `epochcast train regressor`"
        ) from error
    try:
        stored = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} is not JSON: {error}; train the model anew") from error
    found = stored.get("schema") if isinstance(stored, dict) else None
    if found != schema and isinstance(found, str) and found in _RECIPES:
        raise InputError(
            f"the model in {str(folder)!r} is of recipe {_RECIPES[found]!r}, and one of recipe {_RECIPES[schema]!r} is needed "
            "here: name another model, or with `epochcast predict` and `epochcast recommend` the other --recipe"
        )
    if found != schema:
        writer = stored.get("epochcast") if isinstance(stored, dict) else None
        by = f" (epochcast {writer:.20} wrote it)" if isinstance(writer, str) else ""
        has = f"has schema {found!r:.60}; this version reads {schema!r}"
        raise InputError(f"the model in {str(folder)!r} {has}, train it anew{by}")
    if stored.pop("fingerprint", None) != fingerprint(stored):
        raise InputError(f"{place} was changed after training (its fingerprint differs); train it anew")
    manifest = checked(content, place, schema).model_dump(by_alias=True)
    for name, checksum in manifest["files"].items():
        try:
            digest = hashlib.sha256(_content(folder / name, _FILE_LIMIT)).hexdigest()
        except OSError as error:
            raise InputError(f"the model in {str(folder)!r} lacks {name} ({error.strerror}); train it anew") from error
        if digest != checksum:
            raise InputError(f"{name} in {str(folder)!r} was changed after training (its checksum differs); train it anew")
    return manifest


def _content(path: Path, limit: int) -> bytes:
    """The bytes of a plain file: a pipe would wait for ever, and a forged file fill the memory."""
    size = path.stat().st_size
    if not path.is_file() or size > limit:
        what = f"takes {size} bytes, more than {limit}" if path.is_file() else "is no plain file"
        raise InputError(f"the model file {str(path)!r} {what}; train the model anew")
    return path.read_bytes()
