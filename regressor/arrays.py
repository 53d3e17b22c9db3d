"""A model's arrays in a file that is checked before it is believed: no pickle, bounded size, the expected types and shapes."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from epochcast.regressor.errors import InputError

Arrays = Mapping[str, NDArray[Any]]
"""Arrays by name; those of a part of a model are named ``PART.NAME``."""

Shape = tuple[int | str, ...]
"""Lengths of an array's axes; a name means any length, the same one wherever it occurs in a part."""

LIMIT = 200_000_000
"""Most bytes that a file's arrays may take once unpacked, by choice; ours take few, a forged archive could want terabytes."""


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write named arrays as a compressed ``.npz``; the same arrays give the same bytes.

    Raises:
        InputError: they take more bytes than :func:`load_arrays` reads.
    """
    if (size := sum(array.nbytes for array in arrays.values())) > LIMIT:
        raise InputError(f"the model file {path.name} would take {size} bytes, more than {LIMIT}; train on less data")
    np.savez_compressed(path, allow_pickle=False, **arrays)


def load_arrays(content: bytes, name: str) -> dict[str, NDArray[Any]]:
    """Read the bytes of a file ``name`` that :func:`save_arrays` wrote.

    Raises:
        InputError: it is damaged or takes more than :data:`LIMIT` bytes.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked <= LIMIT:
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                return {each: np.asarray(stored[each]) for each in stored.files}
    except Exception as error:  # a damaged archive raises a dozen kinds, NotImplementedError and zlib.error among them
        raise InputError(f"the model file {name} cannot be read; train the model again") from error
    raise InputError(f"the model file {name} unpacks to {unpacked} bytes, more than {LIMIT}; train the model again")


def under(name: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The arrays as those of part ``name`` of a model."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def part(arrays: Arrays, name: str, spec: Mapping[str, tuple[DTypeLike, Shape]] | None = None) -> dict[str, NDArray[Any]]:
    """What :func:`under` put under ``name``, checked against ``spec`` and in its order.

    Args:
        arrays: of a model.
        name: of the part.
        spec: name -> (type, shape) of every array that the part has; ``None``: the caller checks.

    Raises:
        InputError: an array is missing, unexpected, of another type or shape, or not finite.
    """
    own = {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}
    if spec is None:
        return own
    if missing := [key for key in spec if key not in own]:
        raise InputError(f"the model lacks the array '{name}.{missing[0]}'; train the model again")
    if unexpected := [key for key in own if key not in spec]:
        raise InputError(f"the model holds an unexpected array {f'{name}.{unexpected[0]}'!r:.60}; train the model again")
    lengths: dict[str, int] = {}
    for key, (dtype, shape) in spec.items():
        array = own[key]
        if array.dtype != dtype or not _fits(array.shape, shape, lengths):
            expected = f"{np.dtype(dtype).name} of shape ({', '.join(str(length) for length in shape)})"
            actual = f"{array.dtype} of shape {array.shape}"
            raise InputError(f"'{name}.{key}' in the model is {actual}, not {expected}; train the model again")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(f"'{name}.{key}' in the model holds values that are not finite; train the model again")
    return {key: own[key] for key in spec}


def parts_of(arrays: Arrays) -> list[str]:
    """The names of the arrays :func:`under` a name, in their order."""
    return list(dict.fromkeys(name.partition(".")[0] for name in arrays))


def _fits(shape: tuple[int, ...], expected: Shape, lengths: dict[str, int]) -> bool:
    """Whether a shape is as expected; ``lengths`` remembers what each axis name has stood for."""
    if len(shape) != len(expected):
        return False
    return all(
        length == (lengths.setdefault(axis, length) if isinstance(axis, str) else axis)
        for length, axis in zip(shape, expected, strict=True)
    )
