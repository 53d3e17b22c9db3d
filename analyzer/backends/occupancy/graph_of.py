"""The graph of a configuration, exported once in a process; PyTorch is loaded when there is one to export."""

from __future__ import annotations

from functools import lru_cache

from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.analyzer.backends.occupancy.graph.from_onnx import graph_of_onnx
from epochcast.analyzer.backends.occupancy.networks.known_networks import complete
from epochcast.analyzer.errors import InputError
from epochcast.extras import how_to_install


def graph_of(configuration: NetworkConfiguration) -> ComputationGraph:
    """The graph of a configuration at its batch size.

    A network is exported for its other sizes once, and remembered by this process. A user's own ``package.module:factory`` may
    change: it is never remembered.

    Args:
        configuration: its network is a name, an import path, or a file that ends in ``.onnx``, which is read every time (see
            :func:`.graph.from_onnx.graph_of_onnx`). Sizes that are not given have the usual values, see
            :func:`.networks.complete`.

    Raises:
        InputError: there is no such network, a size does not apply to it, its library or PyTorch is missing, or it cannot be
            exported.
    """
    completed = complete(configuration)
    if completed.network.endswith(".onnx"):
        return graph_of_onnx(completed.network, completed)
    if completed.is_factory:
        return _export(completed)
    return _remembered(completed.one_sample).at_batch(completed.batch)


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


@lru_cache(maxsize=1024)
def _remembered(configuration: NetworkConfiguration) -> ComputationGraph:
    return _export(configuration)
