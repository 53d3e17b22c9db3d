"""The text of a profile, whatever it is packed in, or one sentence about why it is none."""

from __future__ import annotations

import gzip
import sys
import zlib
from pathlib import Path

from ....csv_text import one_line, source_name
from ....errors import InputError

_GZIP = b"\x1f\x8b"
_ZIP = b"PK\x03\x04"
_REMEDIES = {
    ".ncu-rep": "export it with `ncu --import FILE --csv --page raw`",
    ".nsys-rep": "record with PyTorch's profiler or ncu",
    ".qdrep": "record with PyTorch's profiler or ncu",
    ".sqlite": "record with PyTorch's profiler or ncu",
}
_ANY = "give a trace of PyTorch's profiler (.json, .json.gz) or a CSV file of ncu"


def read_profile(path: Path) -> str:
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
