"""The graph of a configuration, exported once and kept on disk: PyTorch is loaded only for what is not there yet."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import suppress
from dataclasses import astuple
from functools import cache as memoised
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from epochcast.analyzer.backends.cache_folder import cache_folder
from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph, read_graph, write_graph
from epochcast.analyzer.backends.occupancy.graph.from_onnx import graph_of_onnx
from epochcast.analyzer.backends.occupancy.networks import complete
from epochcast.analyzer.errors import InputError
from epochcast.extras import how_to_install

_LIBRARIES = ("torch", "torchvision", "timm", "transformers")
_OUR_CODE = ("graph/*.py", "networks/*.py", "graph_of.py", "../reader/*.py")


def graph_of(configuration: NetworkConfiguration, cache: bool = True) -> ComputationGraph:
    """The graph of a configuration at its batch size.

    A network is exported for its other sizes once; graphs are kept in ``graphs`` of the cache folder, by configuration,
    versions of the libraries and our code that reads graphs. Files that are damaged are written again, and a folder that
    cannot be written is no obstacle. A user's own ``package.module:factory`` may change from run to run: it is never kept.

    Args:
        configuration: its network is a name, an import path, or a file that ends in ``.onnx``, which is read every time (see
            :func:`.graph.from_onnx.graph_of_onnx`). Sizes that are not given have the usual values, see
            :func:`.networks.complete`.
        cache: whether files may be read and written; without, the latest are remembered by this process alone.

    Raises:
        InputError: there is no such network, a size does not apply to it, its library or PyTorch is missing, or it cannot be
            exported.
    """
    completed = complete(configuration)
    if completed.network.endswith(".onnx"):
        return graph_of_onnx(completed.network, completed)
    if completed.is_factory:
        return _export(completed)
    return _kept(completed.one_sample, cache).at_batch(completed.batch)


@lru_cache(maxsize=1024)
def _kept(configuration: NetworkConfiguration, cache: bool) -> ComputationGraph:
    if not cache:
        return _export(configuration)
    key = hashlib.sha256(repr((astuple(configuration), *_code())).encode()).hexdigest()[:32]
    path = cache_folder() / "graphs" / f"{key}.npz"
    with suppress(OSError, ValueError):  # not there yet, or damaged
        return read_graph(path)
    graph = _export(configuration)
    with suppress(OSError):  # read-only or full: the next run exports again
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:  # several processes may write it at once
            part = Path(folder) / path.name
            with part.open("wb") as file:
                write_graph(graph, file)
            part.replace(path)
    return graph


def _export(configuration: NetworkConfiguration) -> ComputationGraph:
    try:
        from epochcast.analyzer.backends.occupancy.graph.from_module import graph_of_module
        from epochcast.analyzer.backends.occupancy.networks.build_network import build_network
    except ImportError as error:
        raise InputError(
            f"{configuration.network} must be exported by PyTorch, which cannot be loaded ({error}); "
            f"{how_to_install('occupancy')}"
        ) from error
    return graph_of_module(*build_network(configuration), configuration.network, configuration.batch)


@memoised
def _code() -> tuple[str, ...]:
    """What changes when graphs would be read in another way: versions of the libraries, and our code."""
    here, digest = Path(__file__).parent, hashlib.sha256()
    for path in sorted(path for pattern in _OUR_CODE for path in here.glob(pattern)):
        digest.update(path.read_bytes())
    return (digest.hexdigest(), *map(_version, _LIBRARIES))


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""
