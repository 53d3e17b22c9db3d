"""Made-up networks as graphs, whose occupancy follows a known rule: what an operator type reaches, less if it writes little."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from made_graph import made_graph

from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.analyzer.backends.occupancy.labelled_samples import LabelledSamples
from epochcast.analyzer.backends.occupancy.points import COLUMNS
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.regressor import load_catalog

REACHES = {"convolution": 0.3, "linear": 0.2, "relu": 0.9, "layer_norm": 0.7, "softmax": 0.5}
FILLS = 1e6
"""Elements written from which on an operator fills the GPU."""


def made_chain(
    name: str, words: Sequence[str], written: float = 1e4, unknown: dict[str, int] | None = None
) -> ComputationGraph:
    """A chain of these operators at batch 1, each of which writes so many elements."""
    flops = {word: written * (100 if word in ("convolution", "linear") else 1) for word in words}
    operators = [{"word": word, "read": written, "written": written, "flops": flops[word]} for word in words]
    edges = list(pairwise(range(len(words))))
    return made_graph(*operators, name=name, edges=edges, edge_elements=written, unknown=unknown)


def made_network(name: str) -> ComputationGraph:
    """A network that its name alone decides: 10 to 60 operators in its own proportions."""
    rng = np.random.default_rng(list(name.encode()))
    words = rng.choice(list(REACHES), size=int(rng.integers(10, 60)), p=rng.dirichlet(np.ones(len(REACHES))))
    return made_chain(name, words.tolist(), written=float(rng.lognormal(9, 1)))


def occupancy_of(graph: ComputationGraph) -> float:
    """The rule: the mean over operators."""
    fills = np.minimum(1.0, graph.column("written") / FILLS)
    return float(np.mean([REACHES[word] * (0.2 + 0.8 * fill) for word, fill in zip(graph.words, fills, strict=True)]))


def made_points(
    networks: Sequence[str], batches: Sequence[int] = (4, 16, 64, 128), gpu: str = "A100 SXM4 80GB"
) -> pd.DataFrame:
    """A label table of all networks at all batches; ``time_mean`` and ``max`` are more than the mean."""
    rows = []
    for name in networks:
        for batch in batches:
            mean = occupancy_of(made_network(name).at_batch(batch))
            rows.append(
                {
                    "network": name,
                    "batch": batch,
                    **dict.fromkeys(("channels", "image_size", "sequence", "hidden", "layers"), 0),
                    "precision": "fp32",
                    "family": f"family{len(name) % 3}",
                    "gpu": gpu,
                    "labels": "launch_config",
                    "mean": mean,
                    "time_mean": min(1.0, 1.1 * mean),
                    "max": min(1.0, 1.5 * mean),
                    "kernels": len(made_network(name)),
                    "step_s": 1e-3,
                    "nvml_utilisation": 0.9,
                    "memory_bytes": 1e9,
                }
            )
    return pd.DataFrame(rows)[list(COLUMNS)]


def made_samples(networks: Sequence[str], batches: Sequence[int] = (4, 16, 64, 128)) -> LabelledSamples:
    """The same with graphs."""
    points = made_points(networks, batches)
    catalog = load_catalog()
    samples = tuple(
        Sample(Configuration(str(name), int(batch)), made_network(str(name)).at_batch(int(batch)), catalog.resolve(str(gpu)))
        for name, batch, gpu in zip(points["network"], points["batch"], points["gpu"], strict=True)
    )
    nodes = [len(one.graph) for one in samples]
    points = points.assign(nodes=nodes, edges=[one.graph.edges.shape[1] for one in samples])
    return LabelledSamples(points, samples, {}, 0)
