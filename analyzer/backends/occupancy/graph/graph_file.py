"""A computation graph in one ``.npz`` file, without pickles."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from .computation_graph import HYPER_PARAMETERS, SIZES, ComputationGraph
from .vocabulary import VOCABULARY

_ARRAYS = ("hyper_parameters", "sizes", "fixed", "floating", "edges", "edge_types", "edge_elements", "edge_fixed")


def write_graph(graph: ComputationGraph, file: IO[bytes]) -> None:
    """Write everything that a graph holds."""
    said = {"name": graph.name, "batch": graph.batch, "weight_elements": graph.weight_elements, "unknown": graph.unknown}
    places = np.array([VOCABULARY.index(word) for word in graph.words], dtype=np.int16)
    arrays = {name: getattr(graph, name) for name in _ARRAYS}
    np.savez_compressed(file, said=np.array(json.dumps(said)), words=places, **arrays)


def read_graph(path: Path) -> ComputationGraph:
    """Read what :func:`write_graph` wrote.

    Raises:
        OSError: there is no such file, or it cannot be read.
        ValueError: it is damaged, or no such file.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            said = json.loads(str(file["said"]))
            arrays = {name: file[name] for name in _ARRAYS}
            words = tuple(VOCABULARY[place] for place in file["words"])
    except (KeyError, IndexError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} holds no graph: {error}") from error
    n, e = len(words), arrays["edges"].shape[-1]
    shapes = ((n, len(HYPER_PARAMETERS)), (n, len(SIZES)), (n, len(SIZES)), (n,), (2, e), (e,), (e,), (e,))
    if any(arrays[name].shape != shape for name, shape in zip(_ARRAYS, shapes, strict=True)):
        raise ValueError(f"{path} holds arrays that are of no graph")
    return ComputationGraph(words=words, **said, **arrays)
