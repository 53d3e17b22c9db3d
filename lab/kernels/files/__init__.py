"""Profiles that record how kernels were launched, read into the kernel table; a format is a reader here and a line below."""

from __future__ import annotations

import gzip
import io
import sys
import warnings
import zlib
from pathlib import Path

import pandas as pd

from epochcast.analyzer.csv_text import one_line, source_name
from epochcast.analyzer.errors import InputError
from lab.kernels.files import kineto_trace, ncu_csv, tables
from lab.kernels.files.kernel_file import KernelFile
from lab.kernels.occupancy_bench import has_kernels

__all__ = ["KernelFile", "read_any"]

_REMEDIES = {
    ".ncu-rep": "export it with `ncu --import FILE --csv --page raw`",
    **dict.fromkeys((".nsys-rep", ".qdrep", ".sqlite"), "record with PyTorch's profiler or ncu"),
}
_ANY = "give a trace of PyTorch's profiler (.json, .json.gz) or a CSV file of ncu"


def read_any(path: Path) -> KernelFile:
    """The kernels of a profile, whose format is recognised by its content; gzip is unpacked, ``-`` is standard input.

    Raises:
        InputError: it is missing, damaged, of no known format, or holds no kernel.
    """
    name = source_name(path)
    text = _read_text(path, name)
    if text.lstrip().startswith(("{", "[")):
        return kineto_trace.read(text, name)
    if ncu_csv.HEADER.search(text):
        return ncu_csv.read(text, name)
    try:  # not csv_text.parse_csv: a "#" in a kernel's name ({lambda()#1}) begins no comment
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows that are longer than the header
            table = pd.read_csv(io.StringIO(text), index_col=False, dtype=str)
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError) as error:
        raise InputError(f"{name!r} is no profile that can be read; {_ANY}") from error
    is_bench = has_kernels(table)
    if not is_bench and not set(table.columns) >= tables.KINETO_COLUMNS:
        columns = " ".join(", ".join(map(str, table.columns[:6])).split())[:80]
        raise InputError(f"{name!r} is no profile that can be read (it has the columns {columns}); {_ANY}")
    if table.empty:
        raise InputError(f"{name!r} has no rows; give a table of kernels that ran")
    return tables.read_bench(table, path) if is_bench else tables.read_kineto(table, path)


def _read_text(path: Path, name: str) -> str:
    """The file's text, decompressed where it is gzip (several members too); ``-`` reads standard input.

    Bytes that are not UTF-8 (some kernels' names) become replacement characters.

    Raises:
        InputError: the file is missing, empty, truncated, or not text.
    """
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
    except FileNotFoundError:
        raise InputError(f"no such profile: {name!r}; {_ANY}") from None
    except EOFError:
        raise InputError(f"{name!r} ends in the middle of its gzip stream; copy it again, or let the profiler finish") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{name!r} is damaged gzip ({one_line(error)}); copy it again") from error
    except OSError as error:
        raise InputError(f"cannot read {name!r}: {error.strerror or one_line(error)}; {_ANY}") from error
    if content.startswith(b"PK\x03\x04"):
        raise InputError(f"{name!r} is a ZIP archive; unpack it and give the trace in it")
    if not content.strip():
        raise InputError(f"{name!r} is empty; {_ANY}")
    remedy = _REMEDIES.get(path.suffix)
    if remedy or b"\0" in content[:4096]:
        raise InputError(f"{name!r} is a binary file; {remedy or _ANY}")
    return content.decode("utf-8-sig", errors="replace")
