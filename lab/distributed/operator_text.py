"""An operator as one line of JSON: the key of the cache of profiles, and the column ``shape`` of operator corpora."""

from __future__ import annotations

import json
from typing import Any

from epochcast.analyzer.backends.distributed.models.graph import Operator, Tensor


def operator_text(operator: Operator) -> str:
    """JSON object with ``kind``, ``inputs``, ``outputs`` and ``arguments``; tensors are objects of ``dtype`` and ``shape``."""
    parts = {
        "kind": operator.kind,
        "inputs": _plain(operator.inputs),
        "outputs": _plain(operator.outputs),
        "arguments": _plain(operator.arguments),
    }
    return json.dumps(parts, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {"dtype": value.dtype, "shape": list(value.shape)}
    if isinstance(value, tuple):
        return [_plain(element) for element in value]
    return value
