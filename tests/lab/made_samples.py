"""Random graphs with all that Table I tells of them."""

import numpy as np

from epochcast.analyzer.backends.network.operators import VOCABULARY
from epochcast.analyzer.backends.occupancy.graph.computation_graph import HYPER_PARAMETERS, SIZES, ComputationGraph
from epochcast.analyzer.backends.occupancy.networks import NetworkConfiguration, Sample
from epochcast.regressor import load_catalog


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
        unknown={},
    )


def made_sample(nodes: int, seed: int = 0) -> Sample:
    """A random sample of so many operators; another seed is another graph of that size."""
    graph = random_graph(nodes, seed)
    return Sample(NetworkConfiguration(graph.name, graph.batch), graph, load_catalog().resolve("T4"))
