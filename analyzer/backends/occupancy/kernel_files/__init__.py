"""Profiles that tell how kernels were launched, brought into the kernel table; a format is one file here and one line below."""

from __future__ import annotations

import gzip
import io
import sys
import warnings
import zlib
from pathlib import Path
from typing import Protocol

import pandas as pd

from ....csv_text import one_line, source_name
from ....errors import InputError
from . import kineto_kernels, kineto_trace, ncu_csv, occupancy_bench
from .kernel_file import KernelFile

__all__ = ["KernelFile", "read_any"]

_GZIP = b"\x1f\x8b"
_ZIP = b"PK\x03\x04"
_REMEDIES = {
    ".ncu-rep": "export it with `ncu --import FILE --csv --page raw`",
    ".nsys-rep": "record with PyTorch's profiler or ncu",
    ".qdrep": "record with PyTorch's profiler or ncu",
    ".sqlite": "record with PyTorch's profiler or ncu",
}
_ANY = "give a trace of PyTorch's profiler (.json, .json.gz) or a CSV file of ncu"


class _TextFormat(Protocol):
    NAME: str

    def recognises(self, text: str) -> bool:
        """Whether the text is of this format."""
        ...

    def read(self, text: str, name: str) -> KernelFile:
        """The kernels of the file of this name."""
        ...


class _TableFormat(Protocol):
    NAME: str
    TEXTS: tuple[str, ...]

    def recognises(self, table: pd.DataFrame) -> bool:
        """Whether the columns are those of this format."""
        ...

    def read(self, table: pd.DataFrame, path: Path) -> KernelFile:
        """The kernels of the file at this path."""
        ...


_TEXTS: tuple[_TextFormat, ...] = (kineto_trace, ncu_csv)
_TABLES: tuple[_TableFormat, ...] = (kineto_kernels, occupancy_bench)


def read_any(path: Path) -> KernelFile:
    """The kernels of a profile, its format told by its content; gzip is unpacked, ``-`` is standard input.

    Raises:
        InputError: it is missing, damaged, of no known format, or holds no kernel.
    """
    name = source_name(path)
    text = _read_profile(path)
    for text_format in _TEXTS:
        if text_format.recognises(text):
            return text_format.read(text, name)
    known = ", ".join([*(one.NAME for one in _TEXTS), *(one.NAME for one in _TABLES)])
    texts = {column: str for one in _TABLES for column in one.TEXTS}
    try:  # not csv_text.parse_csv: a "#" in a kernel's name ({lambda()#1}) begins no comment
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows that are longer than the header
            table = pd.read_csv(io.StringIO(text), index_col=False, low_memory=False, dtype=texts)
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError) as error:
        raise InputError(f"{name!r} is no profile that can be read; give one of: {known}") from error
    for table_format in _TABLES:
        if table_format.recognises(table):
            if table.empty:
                raise InputError(f"{name!r} has no rows; give a {table_format.NAME} in which kernels ran")
            return table_format.read(table, path)
    columns = " ".join(", ".join(map(str, table.columns[:6])).split())[:80]
    raise InputError(f"{name!r} is no profile that can be read (it has the columns {columns}); give one of: {known}")


def _read_profile(path: Path) -> str:
    """The file's text, decompressed where it is gzip (several members too); ``-`` reads standard input.

    Bytes that are not UTF-8 (some kernels' names) become replacement characters.

    Raises:
        InputError: the file is missing, empty, truncated, or not text.
    """
    name = source_name(path)
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"no such profile: {name!r}; {_ANY}") from None
    except OSError as error:
        raise InputError(f"cannot read {name!r}: {error.strerror or one_line(error)}; {_ANY}") from error
    if content.startswith(_GZIP):
        try:
            content = gzip.decompress(content)
        except EOFError:
            raise InputError(
                f"{name!r} ends in the middle of its gzip stream; copy it again, or let the profiler finish"
            ) from None
        except (OSError, zlib.error) as error:
            raise InputError(f"{name!r} is damaged gzip ({one_line(error)}); copy it again") from error
    if content.startswith(_ZIP):
        raise InputError(f"{name!r} is a ZIP archive; unpack it and give the trace in it")
    if not content.strip():
        raise InputError(f"{name!r} is empty; {_ANY}")
    remedy = _REMEDIES.get(path.suffix)
    if remedy or b"\0" in content[:4096]:
        raise InputError(f"{name!r} is a binary file; {remedy or _ANY}")
    return content.decode("utf-8-sig", errors="replace")
