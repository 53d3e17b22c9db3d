"""Change the files of a model folder, as somebody would who can also make its checksums again."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.arrays import save_arrays
from epochcast.regressor.model_folder import ARRAYS, MANIFEST, fingerprint


def manifest_of(folder: Path) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    return stored


def arrays_of(folder: Path) -> dict[str, NDArray[Any]]:
    with np.load(folder / ARRAYS, allow_pickle=False) as stored:
        return dict(stored)


def signed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with the fingerprint that belongs to it."""
    content = {key: value for key, value in manifest.items() if key != "fingerprint"}
    return {**content, "fingerprint": fingerprint(content)}


def forge(folder: Path, manifest: Mapping[str, Any] | None = None, arrays: Mapping[str, NDArray[Any]] | None = None) -> None:
    """Put another manifest, or other arrays, into the folder, signed."""
    manifest = manifest_of(folder) if manifest is None else manifest
    if arrays is not None:
        save_arrays(folder / ARRAYS, arrays)
        manifest = {**manifest, "arrays": hashlib.sha256((folder / ARRAYS).read_bytes()).hexdigest()}
    (folder / MANIFEST).write_text(json.dumps(signed(manifest)))
