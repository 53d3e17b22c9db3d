"""The records of a ``.wandb`` file, the log that the wandb package keeps of each run, offline runs too.

LevelDB's log format (its ``doc/log_format.md``) behind a header of its own, and in each record a protobuf message that the
wandb package defines; for the log itself it has no reader to be called any more (0.31). The checksum is the CRC-32 of zlib
over a part's type and content, where LevelDB has a masked CRC-32C.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

from epochcast.analyzer.errors import InputError
from epochcast.extras import how_to_install

SUFFIX = ".wandb"

_HEADER = struct.Struct("<4sHB")
_IDENT, _MAGIC, _VERSION = b":W&B", 0xBEE1, 0

_BLOCK = 32768
_PART = struct.Struct("<IHB")  # checksum, length, type
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def read_records(path: Path) -> tuple[list[Any], int]:
    """The ``wandb_internal_pb2.Record`` messages of a file in its order, and how many bytes of it could not be read.

    A part whose checksum is wrong is left out with the record that it belongs to; a run that is still going or was killed may
    end within one. Raises InputError for a file that is missing or none of wandb's, and where the wandb package is not
    installed.
    """
    try:
        from google.protobuf.message import DecodeError
        from wandb.proto import wandb_internal_pb2
    except ImportError as error:
        raise InputError(f"{str(path)!r} is a wandb run, but wandb is not installed here; {how_to_install('wandb')}") from error
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}") from error
    if len(content) < _HEADER.size or _HEADER.unpack_from(content) != (_IDENT, _MAGIC, _VERSION):
        raise InputError(f"{str(path)!r} does not begin like a wandb run ({content[: _HEADER.size]!r}); copy the file again")
    records = []
    messages, lost = _messages(content)
    for message in messages:
        try:
            records.append(wandb_internal_pb2.Record.FromString(message))
        except DecodeError:
            lost += len(message)
    return records, lost


def _messages(content: bytes) -> tuple[list[bytes], int]:
    """The contents of whole records, put together of their parts, and how many bytes belong to none."""
    messages: list[bytes] = []
    parts: list[bytes] = []
    place, read = _HEADER.size, _HEADER.size
    while place < len(content):
        block_end = min(len(content), place - place % _BLOCK + _BLOCK)
        start = place + _PART.size
        if start > block_end:  # padding, or the cut end of the file
            read += 0 if any(content[place:block_end]) else block_end - place
            place = block_end
            continue
        checksum, length, kind = _PART.unpack_from(content, place)
        if start + length > block_end:  # no length: where the next part begins is unknown up to the next block
            parts, place = [], block_end
            continue
        part, place = content[start : start + length], start + length
        if zlib.crc32(part, zlib.crc32(bytes([kind]))) != checksum:
            parts = []
            continue
        parts = [part] if kind in (_FULL, _FIRST) else [*parts, part] if parts else []
        if parts and kind in (_FULL, _LAST):
            message = b"".join(parts)
            messages.append(message)
            read += len(message) + len(parts) * _PART.size
            parts = []
    return messages, len(content) - read
