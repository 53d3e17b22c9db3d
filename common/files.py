"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from epochcast.common.errors import InputError


def write_port(path: Path | None, port: int) -> None:
    """Write the port that a program listens on to the file at ``path``; None: no file.

    Raises InputError as `write_whole`.
    """
    if path is not None:
        write_whole(path, lambda file: file.write(f"{port}\n".encode()))


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> Path:
    """Let ``write`` fill a file next to ``path``, bring it to the disk and move it there; a reader never sees a half.

    Raises InputError if the folder is missing, cannot be written or is full, or if ``path`` is a folder itself.
    """
    if path.is_dir():
        raise InputError(f"cannot write {str(path)!r}: it is a folder; name a file")
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return path
