"""Profiles that record how kernels were launched, read into the kernel table; a format is a reader here and a line below."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pandas as pd

from epochcast.analyzer.errors import InputError
from lab.kernels.files import kineto_trace, tables
from lab.kernels.files.kernel_file import KernelFile

__all__ = ["KernelFile", "read_any"]


def read_any(path: Path) -> KernelFile:
    """The kernels of a profile, whose format is recognised by its content; gzip is unpacked.

    Bytes that are not UTF-8 (some kernels' names) become replacement characters.

    Raises:
        InputError: it is missing, damaged, of no known format, or holds no kernel.
    """
    try:
        content = path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        text = content.decode("utf-8-sig", errors="replace")
        if text.lstrip().startswith(("{", "[")):
            return kineto_trace.read(text, str(path))
        # Not csv_text.parse_csv: a "#" in a kernel's name ({lambda()#1}) begins no comment.
        table = pd.read_csv(io.StringIO(text), index_col=False, dtype=str)
    except (OSError, EOFError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"cannot read {str(path)!r}: {error}; give a trace of PyTorch's profiler") from error
    if not table.empty and tables.has_kernels(table):
        return tables.read_bench(table, path)
    if table.empty or not set(table.columns) >= tables.KINETO_COLUMNS:
        raise InputError(f"{str(path)!r} is no profile; give a trace of PyTorch's profiler")
    return tables.read_kineto(table, path)
