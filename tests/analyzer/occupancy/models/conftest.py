"""Random graphs with all that Table I tells of them."""

from collections.abc import Callable

import numpy as np
import pytest

from epochcast.analyzer.backends.network.operators import VOCABULARY
from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration, Sample
from epochcast.analyzer.backends.occupancy.graph.computation_graph import EDGE_TYPES, HYPER_PARAMETERS, SIZES, ComputationGraph
from epochcast.regressor import load_catalog

MadeSample = Callable[..., Sample]


def random_graph(nodes: int, seed: int) -> ComputationGraph:
    """A chain with shortcuts, at batch 4."""
    rng = np.random.default_rng([nodes, seed])
    arrows = {(i, i + 1) for i in range(nodes - 1)}
    for _ in range(nodes // 2):
        first, second = sorted(rng.integers(0, nodes, 2).tolist())
        if first < second:
            arrows.add((first, second))
    edges = np.array(sorted(arrows), dtype=np.int64).reshape(-1, 2).T
    sizes = np.floor(rng.lognormal(10, 3, (nodes, len(SIZES))))
    return ComputationGraph(
        name=f"random{nodes}",
        batch=4,
        words=tuple(rng.choice(VOCABULARY, nodes).tolist()),
        hyper_parameters=np.floor(rng.lognormal(2, 1, (nodes, len(HYPER_PARAMETERS)))),
        sizes=sizes,
        fixed=sizes * (np.array(SIZES) == "weights"),
        floating=rng.random(nodes) < 0.8,
        edges=edges,
        edge_types=rng.integers(0, EDGE_TYPES.index("backward"), edges.shape[1]),  # of a forward pass
        edge_elements=np.floor(rng.lognormal(10, 3, edges.shape[1])),
        edge_fixed=np.zeros(edges.shape[1]),
        weight_elements=float(sizes[:, SIZES.index("weights")].sum()),
        unknown={},
    )


@pytest.fixture(scope="session")
def made_sample() -> MadeSample:
    """Makes a random sample of so many operators; another seed is another graph of that size."""
    catalog = load_catalog()

    def make(nodes: int, seed: int = 0, batch: int = 4, precision: str = "fp32", gpu: str = "T4") -> Sample:
        graph = random_graph(nodes, seed).at_batch(batch)
        return Sample(NetworkConfiguration(graph.name, batch, precision=precision), graph, catalog.resolve(gpu))

    return make
