"""An operator from its line of JSON, the column ``shape`` of operator corpora."""

from __future__ import annotations

import json
from typing import Any, cast, get_args

from epochcast.analyzer.backends.distributed.graph import DTYPE_BYTES, Operator, Phase, Tensor
from epochcast.analyzer.backends.reader.aten_operators import Kind
from epochcast.analyzer.errors import InputError


def operator_from_text(name: str, phase: str, flops: float, text: str) -> Operator:
    """The operator of an object with ``kind``, ``inputs``, ``outputs`` and ``arguments``; tensors are ``dtype`` and ``shape``.

    Raises:
        InputError: the text is no such object, or phase or kind is unknown.
    """
    try:
        parts = json.loads(text)
        kind, inputs, outputs, arguments = (parts[part] for part in ("kind", "inputs", "outputs", "arguments"))
        if kind not in get_args(Kind) or phase not in get_args(Phase):
            raise ValueError(f"{kind!r} in pass {phase!r}")
        passed = cast("Phase", phase)
        return Operator(name, kind, passed, _tensors(inputs), _tensors(outputs), flops, arguments=_value(arguments))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"operator {name!r} has the shape {text[:60]!r}, which cannot be read ({error}); "
            "it must be JSON with kind, inputs, outputs and arguments"
        ) from error


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        dtype, shape = value["dtype"], value["shape"]
        if dtype not in DTYPE_BYTES or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ValueError(f"tensor {value}")
        return Tensor(tuple(shape), dtype)
    if isinstance(value, list):
        return tuple(_value(element) for element in value)
    return value


def _tensors(values: Any) -> tuple[Tensor, ...]:
    tensors = _value(values)
    if not isinstance(tensors, tuple) or not all(isinstance(tensor, Tensor) for tensor in tensors):
        raise ValueError(f"tensors {values}")
    return tensors
