"""ONNX files as they lie on the disk: read with the onnx library, whole, without the values of weights kept elsewhere."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import one_line
from epochcast.extras import how_to_install

_LARGEST_KEPT = 1024
"""Elements of a weight up to which its values may decide shapes."""


def load_onnx(path: str) -> tuple[Any, list[Any]]:
    """The checked model with its local functions inlined, and its weights.

    Weights that are large, or whose values lie in another file, become inputs of the graph: only their sizes are needed, and
    checking and copying hundreds of megabytes takes seconds.

    Raises:
        InputError: the onnx library is missing, or the file is none or not whole.
    """
    try:
        import onnx
        import onnx.inliner
    except ImportError as error:
        raise InputError(f"reading {path!r} needs the onnx library; {how_to_install('onnx')}") from error
    if not Path(path).is_file():
        raise InputError(f"no such file: {path!r}; give the path of an ONNX file")
    try:
        model = onnx.load(path, load_external_data=False)
        weights = list(model.graph.initializer)
        _weights_as_inputs(onnx, model.graph)
        onnx.checker.check_model(model)
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
    except Exception as error:  # of protobuf, of the checker or of the operating system
        raise InputError(
            f"{path!r} is no ONNX file that can be read: {one_line(error)[:200]}; export the network again"
        ) from error
    return model, weights


def _weights_as_inputs(onnx: Any, graph: Any) -> None:
    inputs = {entry.name for entry in graph.input}
    weights = list(graph.initializer)
    kept = [
        weight
        for weight in weights
        if weight.data_location != onnx.TensorProto.EXTERNAL and math.prod(weight.dims) <= _LARGEST_KEPT
    ]
    names = inputs | {weight.name for weight in kept}
    for weight in weights:
        if weight.name not in names:
            graph.input.append(onnx.helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims)))
    del graph.initializer[:]
    graph.initializer.extend(kept)
