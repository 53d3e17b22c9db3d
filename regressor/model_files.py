"""A model as a folder: ``model.json`` beside array files, no pickle, each change noticed (docs/decisions/0005)."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .errors import InputError

SCHEMA = "epochcast.regressor/v1"
MANIFEST = "model.json"
SHIPPED = Path(__file__).parent / "models" / "default"
"""The model that comes with the package."""

_LIBRARIES = ("catboost", "numpy", "scikit-learn")


def fingerprint(value: object) -> str:
    """Return the SHA-256 of JSON values, independent of key order."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def write(folder: Path, state: dict[str, Any], save: Callable[[Path], None]) -> None:
    """Write ``state`` and the files of ``save`` into ``folder``, through a folder beside it.

    Raises:
        InputError: ``folder`` exists and is no model, or the place cannot be written.
    """
    folder = folder.resolve()  # a link or "." cannot be renamed, what it stands for can
    if folder.exists() and not (folder / MANIFEST).is_file() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(f"{str(folder)!r} exists and holds no model; name a new folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise InputError(f"cannot write the model to {str(folder)!r}: {error.strerror}") from error
    try:
        fresh.chmod(0o755)
        save(fresh)
        files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(fresh.iterdir())}
        manifest = {"schema": SCHEMA, **state, "libraries": {name: version(name) for name in _LIBRARIES}, "files": files}
        manifest["fingerprint"] = fingerprint(manifest)
        (fresh / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
        _swap(fresh, folder)
    finally:
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


def read(folder: Path, files: Sequence[str]) -> dict[str, Any]:
    """Return the state that :func:`write` stored, once every byte is what it was.

    Raises:
        InputError: something is missing, of another schema, or was changed.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    except OSError as error:
        raise InputError(
            f"there is no model in {str(folder)!r} ({MANIFEST}: {error.strerror}); train one with `epochcast train regressor`"
        ) from error
    except ValueError as error:
        raise InputError(f"{str(folder / MANIFEST)!r} is not JSON: {error}; train the model anew") from error
    schema = manifest.get("schema") if isinstance(manifest, dict) else None
    if schema != SCHEMA:
        raise InputError(f"the model in {str(folder)!r} has schema {schema!r}; this version reads {SCHEMA!r}, train it anew")
    if manifest.pop("fingerprint", None) != fingerprint(manifest):
        raise InputError(f"{MANIFEST} in {str(folder)!r} was changed after training (its fingerprint differs); train it anew")
    for name in files:
        try:
            content = (folder / name).read_bytes()
        except OSError as error:
            raise InputError(f"the model in {str(folder)!r} lacks {name} ({error.strerror}); train it anew") from error
        if hashlib.sha256(content).hexdigest() != manifest.get("files", {}).get(name):
            raise InputError(f"{name} in {str(folder)!r} was changed after training (its checksum differs); train it anew")
    state: dict[str, Any] = manifest
    return state
