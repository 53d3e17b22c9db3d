"""A network that a question sends as ONNX is checked, and handed to the ONNX reader."""

from __future__ import annotations

import tempfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from epochcast.analyzer.csv_text import one_line
from epochcast.analyzer.errors import InputError

MOST_BYTES = 64 * 2**20
"""Of the file; the service's own limit of a body may be lower. Weights are not needed: an export without them is small."""

_MOST_NODES = 50_000
_MOST_DEPTH = 50
_MOST_ELEMENTS = 2**40

OnnxText = Annotated[
    str,
    Field(
        min_length=4,
        max_length=4 * -(-MOST_BYTES // 3),
        description="The bytes of an ONNX file in base64. All its tensors must be in this file.",
        json_schema_extra={"contentEncoding": "base64"},
    ),
]


@contextmanager
def received_onnx(text: str) -> Iterator[str]:
    """The path of a file with the sent network, for as long as it is read.

    Any error of its readers is reported as a fault of the network, which the client made.

    Raises:
        InputError: the text is no base64 of an ONNX file, it refers to other files, or has more in it than any network.
    """
    try:
        content = b64decode(text, validate=True)
    except ValueError as error:
        raise InputError(f"onnx is not base64 ({error}); send the bytes of an ONNX file in base64") from error
    _check(content)
    with tempfile.TemporaryDirectory(prefix="epochcast-onnx-") as folder:
        path = Path(folder) / "network.onnx"
        path.write_bytes(content)
        try:
            yield str(path)
        except InputError as error:
            raise InputError(_without(str(error), path)) from error
        except MemoryError:
            raise
        except Exception as error:
            said = _without(f"{type(error).__name__}: {one_line(error)[:200]}", path)
            raise InputError(f"the onnx network cannot be read ({said}); export it again") from error


def _without(sentence: str, path: Path) -> str:
    """The sentence without the path of the file, which must not be revealed."""
    return sentence.replace(repr(str(path)), "the onnx network").replace(str(path), "the onnx network")


def _check(content: bytes) -> None:
    try:
        import onnx
    except ImportError as error:
        raise InputError("ONNX networks need the onnx library, which is not installed here; name a network instead") from error
    try:
        model = onnx.ModelProto.FromString(content)
    except Exception as error:  # protobuf's own
        raise InputError(f"onnx is not an ONNX file ({one_line(error)[:100]}); export the network again") from error
    seen = 0
    for message, depth in _messages(model):
        kind = message.DESCRIPTOR.name
        if depth > _MOST_DEPTH:
            raise InputError(f"the onnx network is nested more than {_MOST_DEPTH} deep; export it without branches and loops")
        if kind == "TensorProto":
            if message.external_data or message.data_location == onnx.TensorProto.EXTERNAL:
                raise InputError(
                    f"the tensor {message.name!r:.60} of the onnx network is in another file; export with all weights in one "
                    "file"
                )
            _check_sides(message.name, message.dims)
        elif kind == "ValueInfoProto":
            _check_sides(message.name, [side.dim_value for side in message.type.tensor_type.shape.dim])
        elif kind == "NodeProto":
            seen += 1
            if seen > _MOST_NODES:
                raise InputError(f"the onnx network has more than {_MOST_NODES} nodes; send a smaller network")


def _check_sides(name: str, sides: Any) -> None:
    elements = 1
    for side in sides:
        if side < 0:
            raise InputError(f"{name!r:.60} of the onnx network has a side of {side}; export the network again")
        elements *= side or 1
        if elements > _MOST_ELEMENTS:
            raise InputError(f"{name!r:.60} of the onnx network has {list(sides)!s:.80} elements; send one that fits a GPU")


def _messages(model: Any) -> Iterator[tuple[Any, int]]:
    """Every protobuf message inside a model, whichever field holds it, with its depth."""
    waiting = [(model, 0)]
    while waiting:
        message, depth = waiting.pop()
        yield message, depth
        for field, value in message.ListFields():
            if field.message_type is None or field.message_type.name == "StringStringEntryProto":
                continue
            waiting.extend((part, depth + 1) for part in ([value] if hasattr(value, "ListFields") else value))
