"""Arrays in a file that is checked before it is believed: no pickle, bounded size, the expected types and shapes."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .errors import InputError

Shape = tuple[int | str, ...]
"""Lengths of an array's axes; a name stands for any length, the same one wherever it occurs in a file."""

LIMIT = 200_000_000
"""Most bytes that a file's arrays may take once unpacked, by choice; ours take few, a forged archive could want terabytes."""


def save_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays as a compressed ``.npz``; the same arrays give the same bytes.

    Raises:
        InputError: they take more bytes than :func:`load_arrays` reads.
    """
    if (size := sum(array.nbytes for array in arrays.values())) > LIMIT:
        raise InputError(f"the model file {path.name} would take {size} bytes, more than {LIMIT}; train on fewer profiles")
    np.savez_compressed(path, allow_pickle=False, **arrays)


def load_arrays(path: Path, spec: Mapping[str, tuple[DTypeLike, Shape]]) -> dict[str, NDArray[Any]]:
    """Read what :func:`save_arrays` wrote, as ``name -> array`` in the order of ``spec``.

    Args:
        path: the file.
        spec: name -> (type, shape) of every array that the file holds.

    Raises:
        InputError: the file is missing or damaged, takes more than :data:`LIMIT` bytes, or an array is missing, unexpected,
            of another type or shape, or not finite.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked <= LIMIT:
            with np.load(path, allow_pickle=False) as stored:
                arrays = {name: np.asarray(stored[name]) for name in stored.files}
    except Exception as error:  # a damaged archive raises a dozen kinds, NotImplementedError and zlib.error among them
        raise InputError(f"the model file {path.name} cannot be read; train the model anew") from error
    if unpacked > LIMIT:
        raise InputError(f"the model file {path.name} unpacks to {unpacked} bytes, more than {LIMIT}; train the model anew")
    if missing := [name for name in spec if name not in arrays]:
        raise InputError(f"the model file {path.name} lacks the array {missing[0]!r}; train the model anew")
    if unexpected := [name for name in arrays if name not in spec]:
        raise InputError(f"the model file {path.name} holds an unexpected array {unexpected[0]!r:.60}; train the model anew")
    lengths: dict[str, int] = {}
    for name, (dtype, shape) in spec.items():
        array = arrays[name]
        if array.dtype != dtype or not _fits(array.shape, shape, lengths):
            expected = f"{np.dtype(dtype).name} of shape ({', '.join(str(length) for length in shape)})"
            found = f"{array.dtype} of shape {array.shape}"
            raise InputError(f"{name!r} in the model file {path.name} is {found}, not {expected}; train the model anew")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"{name!r} in the model file {path.name} holds values that are not finite; train the model anew")
    return {name: arrays[name] for name in spec}


def _fits(shape: tuple[int, ...], expected: Shape, lengths: dict[str, int]) -> bool:
    """Whether a shape is as expected; ``lengths`` remembers what each axis name has stood for."""
    if len(shape) != len(expected):
        return False
    return all(
        length == (lengths.setdefault(axis, length) if isinstance(axis, str) else axis)
        for length, axis in zip(shape, expected, strict=True)
    )
