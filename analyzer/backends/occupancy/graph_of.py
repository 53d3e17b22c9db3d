"""The graph of a configuration, read once in a process; PyTorch is loaded when there is one to read."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.analyzer.backends.occupancy.networks import SIZES, build_network, complete
from epochcast.analyzer.errors import InputError
from epochcast.extras import how_to_install


def graph_of(configuration: NetworkConfiguration) -> ComputationGraph:
    """The graph of a configuration at its batch size.

    A network is read for its other sizes once, and remembered by this process. What is the user's own, a
    ``package.module:factory`` or a file, may change: it is never remembered.

    Args:
        configuration: its network is what :func:`.networks.build_network` takes. Sizes that are not given have the usual
            values, see :func:`.networks.complete`.

    Raises:
        InputError: there is no such network, a size does not apply to it, its library or PyTorch is missing, or it cannot be
            read.
    """
    completed = complete(configuration)
    if completed.is_factory or completed.network.endswith(".onnx"):
        return _read(completed)
    return _remembered(completed.one_sample).at_batch(completed.batch)


def _read(configuration: NetworkConfiguration) -> ComputationGraph:
    name, batch = configuration.network, configuration.batch
    try:
        from epochcast.analyzer.backends.network.onnx_file import read_onnx
        from epochcast.analyzer.backends.occupancy.graph.from_module import graph_of_module
    except ImportError as error:
        raise InputError(
            f"{name} must be read by PyTorch, which cannot be loaded ({error}); {how_to_install('occupancy')}"
        ) from error
    if not name.endswith(".onnx"):
        return graph_of_module(*build_network(configuration), name, batch)
    sizes = {"batch": batch, **{size: getattr(configuration, size) for size in SIZES}}
    network, inputs, samples = read_onnx(name, sizes)  # which may be for a batch of its own
    return graph_of_module(network, inputs, ",".join(Path(file).name for file in name.split(",")), samples).at_batch(batch)


@lru_cache(maxsize=1024)
def _remembered(configuration: NetworkConfiguration) -> ComputationGraph:
    return _read(configuration)
