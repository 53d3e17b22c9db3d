"""Graphs of the thirty networks: their size, their FLOPs, and the time that each takes; part `export` of docs/occupancy.md.

Run: python -m benchmarks.occupancy.export [--write] [NETWORK]…      (a few minutes)
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np

from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph, read_graph, write_graph
from epochcast.analyzer.backends.occupancy.graph.from_module import graph_as_given, graph_of_module
from epochcast.analyzer.backends.occupancy.graph.operator_work import PRODUCTS, RECURRENT
from epochcast.analyzer.backends.occupancy.networks import NETWORKS, complete
from epochcast.analyzer.backends.occupancy.networks.build_network import build_network

from ..page import OCCUPANCY, markdown_table

Answer = TypeVar("Answer")

ROUNDS = 3
BATCH = 4
"""Samples at which a rescaled graph is compared with the export of that batch."""

HEADER = (
    "network",
    "operators",
    "edges",
    "GFLOP",
    "of products",
    "built s",
    "exported and read s",
    "from the cache ms",
    "rescaled",
)


def main() -> None:
    """Print the table; --write puts it into docs/occupancy.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="fill docs/occupancy.md")
    parser.add_argument("networks", nargs="*", metavar="NETWORK")
    options = parser.parse_args()
    graph_of_module(*build_network(Configuration("lenet", 1)), "lenet", 1)  # what torch loads once
    lines = part(options.networks or list(NETWORKS))
    print("\n".join(lines))
    if options.write:
        OCCUPANCY.fill("export", lines)


def part(networks: Sequence[str]) -> list[str]:
    """Markdown of the part."""
    rows, seconds = [], []
    for name in networks:
        cells, taken = row(name)
        rows.append(cells)
        seconds.append(taken)
        print(f"{name}: {taken:.2f} s", file=sys.stderr)
    slowest = int(np.argmax(seconds))
    return [
        f"One sample of the usual size of each network. Seconds of one core, best of {ROUNDS}, with PyTorch and the libraries "
        f"loaded. The slowest takes {seconds[slowest]:.2f} s in all ({networks[slowest]}). FLOPs count "
        f"a multiply-add twice. Rescaled: whether the graph at batch {BATCH} equals an export of that batch in its operators, "
        "sizes and edges.",
        "",
        *markdown_table(HEADER, rows),
    ]


def row(name: str) -> tuple[list[str], float]:
    """Cells of a network, and the seconds until its graph is there."""
    asked = complete(Configuration(name, 1))
    (network, inputs), built = best(lambda: build_network(asked))
    graph, exported = best(lambda: graph_of_module(network, inputs, name, 1))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "graph.npz"
        with path.open("wb") as file:
            write_graph(graph, file)
        _, read = best(lambda: read_graph(path))
    products = sum(
        graph.column("flops")[place] for place, word in enumerate(graph.words) if word in (*PRODUCTS, *RECURRENT, "attention")
    )
    cells = [
        name,
        str(len(graph)),
        str(graph.edges.shape[1]),
        f"{graph.column('flops').sum() / 1e9:.2f}",
        f"{products / 1e9:.2f}",
    ]
    cells += [f"{built:.2f}", f"{exported:.2f}", f"{1e3 * read:.1f}", "equal" if rescales(graph, asked) else "differs"]
    return cells, built + exported


def best(call: Callable[[], Answer]) -> tuple[Answer, float]:
    """What a call answers, and the fewest seconds of the processor that it took."""
    seconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        answer = call()
        seconds.append(time.process_time() - began)
    return answer, min(seconds)


def rescales(graph: ComputationGraph, asked: Configuration) -> bool:
    """Whether the graph of another batch is the one that an export of it gives."""
    several = Configuration(asked.network, BATCH)
    fresh, rescaled = graph_as_given(*build_network(several), asked.network, BATCH), graph.at_batch(BATCH)
    alike = (np.array_equal(getattr(fresh, name), getattr(rescaled, name)) for name in ("words", "edges", "edge_types"))
    return all(alike) and all(np.allclose(getattr(fresh, name), getattr(rescaled, name)) for name in ("sizes", "edge_elements"))


if __name__ == "__main__":
    main()
