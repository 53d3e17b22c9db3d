"""Which node has what, and which job runs where: drawn once for the whole fleet, in parts that can be made apart.

A part (`NodeBlock`) is what shares a job: one node, or the nodes of a job that spans several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from lab.simulator.devices import DEVICES, SimulatedDevice

GPUS_PER_NODE = 8

Work = Literal["training", "steps", "inference", "serving", "notebook", "idle"]
"""What a GPU does; only a training has epochs."""
WORKS: tuple[Work, ...] = get_args(Work)

# Kinds of nodes: how common, and what is rented. The price table has no machine of eight T4 or L4: nobody says what they are.
_NODES: tuple[tuple[str, float, str, str, str], ...] = (
    ("Tesla T4", 0.06, "", "", ""),
    ("NVIDIA L4", 0.08, "", "", ""),
    ("Tesla V100-SXM2-16GB", 0.12, "p3.16xlarge", "aws", "us-east-1"),
    ("NVIDIA A10G", 0.16, "g5.48xlarge", "aws", "us-east-1"),
    ("NVIDIA A100-SXM4-40GB", 0.34, "a2-highgpu-8g", "gcp", "us-central1"),
    ("NVIDIA H100 80GB HBM3", 0.24, "p5.48xlarge", "aws", "us-east-1"),
)
# Nodes of a block and its share of all blocks: half of the GPUs are in jobs of one node or less.
_SPANS = ((1, 0.80), (2, 0.10), (4, 0.06), (8, 0.04))
# GPUs of a job within a node.
_SIZES = ((1, 0.40), (2, 0.25), (4, 0.20), (8, 0.15))
# What runs on one GPU, and on several.
_ALONE = (0.58, 0.12, 0.06, 0.06, 0.04, 0.14)
_TOGETHER = (0.70, 0.18, 0.0, 0.0, 0.0, 0.12)
# Jobs of two GPUs and more of which one holds up the others; nodes whose driver keeps the profiling metrics to itself.
_STRAGGLERS, _SILENT = 0.10, 0.05


@dataclass(frozen=True)
class SimulatedNode:
    """A machine: its name, its number of GPUs, their kind, and what is rented (empty where nobody says).

    ``silent``: only what plain NVML reads is there.
    """

    name: str
    gpus: int
    device: SimulatedDevice
    instance: str
    cloud: str
    region: str
    silent: bool


@dataclass(frozen=True)
class Slot:
    """GPUs of a block that work together, one job after the other.

    Attributes:
        gpus: (node of the block, index on the node) of each.
        works: what each job does.
        straggler: place in ``gpus`` of the one that is slower than the others; None where none is.
        number: of its first job, in the whole fleet.
    """

    gpus: tuple[tuple[int, int], ...]
    works: tuple[Work, ...]
    straggler: int | None
    number: int


@dataclass(frozen=True)
class NodeBlock:
    """Nodes that share a job, and what runs on them; ``number`` is its seed's."""

    number: int
    nodes: tuple[SimulatedNode, ...]
    slots: tuple[Slot, ...]

    @property
    def gpus(self) -> int:
        """All GPUs of its nodes."""
        return sum(node.gpus for node in self.nodes)


def blocks(gpus: int, seed: int, *, sequences: bool) -> Iterator[NodeBlock]:
    """Yield the blocks of a fleet of so many GPUs; the same arguments give the same ones.

    ``sequences``: some GPUs have two jobs, one after the other.
    """
    rng = np.random.default_rng([seed, 0])
    left, number, node_number, job_number = gpus, 0, 0, 1
    while left:
        span = min(_pick(rng, _SPANS), -(-left // GPUS_PER_NODE))
        kind = _NODES[int(rng.choice(len(_NODES), p=[share for _, share, *_ in _NODES]))]
        device = next(device for device in DEVICES if device.name == kind[0])
        silent = bool(rng.random() < _SILENT)
        nodes = []
        for _ in range(span):
            count = min(GPUS_PER_NODE, left)
            nodes.append(SimulatedNode(f"node-{node_number:05d}", count, device, *kind[2:], silent=silent))
            node_number, left = node_number + 1, left - count
        slots = []
        for members in _split(nodes, rng):
            shares = _ALONE if len(members) == 1 else _TOGETHER
            repeats = 2 if sequences and rng.random() < 0.12 else 1
            works = tuple(WORKS[place] for place in rng.choice(len(WORKS), repeats, p=shares))
            held_up = len(members) > 1 and rng.random() < _STRAGGLERS
            slots.append(Slot(members, works, int(rng.integers(len(members))) if held_up else None, job_number))
            job_number += repeats
        yield NodeBlock(number, tuple(nodes), tuple(slots))
        number += 1


def _split(nodes: list[SimulatedNode], rng: np.random.Generator) -> Iterator[tuple[tuple[int, int], ...]]:
    """The GPUs of a block by job: all in one where there are several nodes."""
    places = [(place, index) for place, node in enumerate(nodes) for index in range(node.gpus)]
    while places:
        size = len(places) if len(nodes) > 1 else min(_pick(rng, _SIZES), len(places))
        yield tuple(places[:size])
        places = places[size:]


def _pick(rng: np.random.Generator, choices: tuple[tuple[int, float], ...]) -> int:
    return int(rng.choice([value for value, _ in choices], p=[share for _, share in choices]))
