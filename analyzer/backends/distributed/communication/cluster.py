"""A cluster: GPUs in nodes, what links them within a node and between nodes, how a group of ranks is placed on it, and the
seconds of a collective over the group.

Links are presets with their sources (``links.toml``), a user's own, and what was measured. Of a collective: latency and
bandwidth of each algorithm, the fastest taken. Ring: Thakur, Rabenseifner and Gropp 2005, section 4 (all-reduce as
reduce-scatter and all-gather). Tree between nodes: double binary trees, Sanders, Speck and Träff 2009, as NCCL has them since
2.4. Hierarchical: reduce-scatter within the node, all-reduce of each share between nodes, all-gather within the node. If the
cluster has measured all-reduces, they replace the part within a node. NCCL has no hierarchical ring of its own: its trees come
to the same time over two nodes, its flat ring takes 44 % longer over three and 5 % over sixteen where only the network counts.
SHARP (NVLS, in-network reduction) is not modelled.

``ranks`` and ``stride`` place the group: tensor ranks are 1 apart, data ranks t, pipeline ranks d x t; all the groups of a
kind communicate at once and share the network of their nodes. ``nbytes`` is always the whole buffer: what a rank holds before
an all-reduce or reduce-scatter, and after an all-gather.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins.question import sentence
from epochcast.analyzer.words import bare
from epochcast.regressor import Gpu, load_catalog

_SEVERAL = re.compile(r"(\d+)\s*[x×]\s*(?=[^\d\s])", re.IGNORECASE)


class Link(BaseModel):
    """One kind of link.

    Attributes:
        name: what it is called on the command line.
        bandwidth: bytes/s in one direction, at line rate unless ``measured``.
        latency: seconds of one step of a collective over it.
        per: whether each GPU has this bandwidth to itself or the GPUs of a node share it.
        measured: whether the bandwidth is what transfers were measured to reach, so that no efficiency lowers it.
        source: where the figures come from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    bandwidth: float = Field(gt=0, lt=1e15, allow_inf_nan=False)
    latency: float = Field(ge=0, lt=1, allow_inf_nan=False)
    per: Literal["gpu", "node"] = "gpu"
    measured: bool = False
    source: str = ""


def _read(text: str, origin: str) -> dict[str, Link]:
    try:
        tables = tomllib.loads(text).get("link")
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{origin} is not TOML: {error}") from error
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{origin} holds no [[link]] table; add one per link (name, bandwidth, latency, per)")
    links: dict[str, Link] = {}
    for table in tables:
        name = str(table.get("name", "without a name"))
        try:
            links[name] = Link.model_validate(table)
        except ValidationError as error:
            raise InputError(f"{origin}: of link {name!r} {sentence(error)}; figures are in bytes/s and seconds") from error
    return links


def load_links(extra: Path | None = None) -> dict[str, Link]:
    """Load the presets by name, followed by the links of a user's own TOML file, which replace ours of the same name.

    Raises:
        InputError: ``extra`` is missing, not TOML, or holds a link with a missing, unknown or impossible figure.
    """
    links = _read((files(__package__) / "links.toml").read_text("utf-8"), "links.toml")
    if extra is None:
        return links
    try:
        return links | _read(extra.read_text("utf-8"), str(extra))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the link file {str(extra)!r}: {error}") from error


def link_named(name: str, links: Mapping[str, Link] | None = None) -> Link:
    """Return the link of this name; case, spaces and dashes do not count.

    ``4x InfiniBand HDR`` is a node with four such links, which its GPUs share.

    Raises:
        InputError: there is no such link.
    """
    links = load_links() if links is None else links
    by_key = {bare(known): link for known, link in links.items()}
    if link := by_key.get(bare(name)):
        return link
    if several := _SEVERAL.match(name.strip()):
        count, single = int(several[1]), link_named(name.strip()[several.end() :], links)
        if count:
            return single.model_copy(
                update={"name": f"{count}x {single.name}", "bandwidth": count * single.bandwidth, "per": "node"}
            )
    close = [by_key[known].name for known in get_close_matches(bare(name), by_key, n=3, cutoff=0.5)]
    remedy = f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(links)}"
    own = "your own link: --links FILE, a TOML file with a table [[link]] with name, bandwidth, latency, per"
    raise InputError(f"unknown link {name!r}; {remedy} ({own})")


@dataclass(frozen=True)
class AllReduceFit:
    """Latency and bandwidth of all-reduces over ``gpus`` GPUs: ``latency + 2 (gpus - 1)/gpus nbytes / bandwidth`` seconds.

    ``latency`` is of the whole all-reduce; ``bandwidth`` is what each GPU sends (NCCL's bus bandwidth).
    """

    gpus: int
    latency: float
    bandwidth: float

    def seconds(self, nbytes: ArrayLike) -> NDArray[np.float64]:
        """Seconds of all-reduces of ``nbytes``."""
        sent = 2 * (self.gpus - 1) / self.gpus * np.asarray(nbytes, dtype=np.float64)
        return np.asarray(self.latency + sent / self.bandwidth)


@cache
def fitted_all_reduces(gpu: str) -> dict[int, AllReduceFit]:
    """Our fits of public measurements for this GPU of the catalogue, by number of GPUs; empty where there are none."""
    tables = tomllib.loads((files(__package__) / "measured_links.toml").read_text("utf-8"))["measured"]
    return {fit["gpus"]: AllReduceFit(**fit) for table in tables if gpu in table["gpus"] for fit in table["fit"]}


# Per step of NCCL's ring with the Simple protocol (NCCL 2.10, src/graph/tuning.cc, hwLat).
_NVLINK_LATENCY = 3.4e-6

# What NVIDIA's own systems of eight have as network (links.toml gives the sources).
_USUAL_NETWORK = {
    "Volta": "4x InfiniBand EDR",
    "Ampere": "InfiniBand HDR",
    "Hopper": "InfiniBand NDR",
    "Blackwell": "InfiniBand NDR",
}
_OTHER_NETWORK = "Ethernet 100G"


class Placement(NamedTuple):
    """How a group is placed on the nodes: ranks that share a node, and the nodes that it spans."""

    members: int
    nodes: int


@dataclass(frozen=True)
class Cluster:
    """GPUs in nodes; global ranks fill one node after the other.

    Attributes:
        gpu: the GPU, of which every node holds ``gpus_per_node``.
        intra: link within a node.
        inter: link between nodes; None: there is one node.
        measured: all-reduce times within a node by number of GPUs, which take the place of the formulas.
        intra_efficiency: share of the line rate of ``intra`` that collectives reach; 0.75 is what was fitted to 8 A100 SXM4
            (``measured_links.toml``: 224 of 300 GB/s).
        assumptions: sentences on what was not given.
    """

    gpu: Gpu
    gpus_per_node: int
    intra: Link
    inter: Link | None = None
    measured: Mapping[int, AllReduceFit] = field(default_factory=dict)
    intra_efficiency: float = 0.75
    assumptions: tuple[str, ...] = ()

    @property
    def intra_bandwidth(self) -> float:
        """Bytes/s that a GPU sends to the next of its node."""
        efficiency = 1.0 if self.intra.measured else self.intra_efficiency
        return efficiency * self.intra.bandwidth / (1 if self.intra.per == "gpu" else self.gpus_per_node)

    def inter_bandwidth(self, senders: int) -> float:
        """Bytes/s to other nodes that each of ``senders`` GPUs of a node has while all of them send."""
        assert self.inter is not None, "one node"
        return self.inter.bandwidth / (1 if self.inter.per == "gpu" else senders)

    def placement(self, ranks: int, stride: int) -> Placement:
        """The placement of the worst placed group of ``ranks`` global ranks, ``stride`` apart.

        A group that fills no whole part of a node (3 ranks in nodes of 8) has neighbours that straddle two.
        """
        if self.inter is None and (ranks - 1) * stride < self.gpus_per_node:
            return Placement(ranks, 1)
        span = ranks * stride
        if span <= self.gpus_per_node and self.gpus_per_node % span == 0:
            return Placement(ranks, 1)
        if span <= self.gpus_per_node:
            return Placement(math.ceil(ranks / 2), 2)
        members = min(ranks, max(1, self.gpus_per_node // stride))
        return Placement(members, math.ceil(ranks / members))


def _link_within(gpu: Gpu, gpus_per_node: int) -> tuple[Link, tuple[str, ...]]:
    """The link that a GPU of the catalogue has to its neighbours, and what is assumed of it."""
    # Switches join SXM boards; most other boards have bridges over two slots (product briefs).
    bridge = (0 if "SXM" in gpu.name else 2) if gpu.nvlink_bridge is None else gpu.nvlink_bridge
    bridged = bridge or math.inf
    if gpu.nvlink_bandwidth and gpus_per_node <= bridged:
        link = Link(
            name=f"NVLink of {gpu.name}",
            bandwidth=gpu.nvlink_bandwidth / 2,  # the catalogue has data sheets' totals of both directions
            latency=_NVLINK_LATENCY,
            source="GPU catalogue",
        )
        return link, (f"{gpu.name} are linked by NVLink bridges",) if bridged != math.inf else ()
    if gpu.pcie_gen is None:
        raise InputError(
            f"the catalogue has no PCIe generation for {gpu.name}; name the link within a node, such as 'PCIe 4 x16'"
        )
    name = f"PCIe {gpu.pcie_gen} x16"
    if gpu.nvlink_bandwidth:
        return link_named(name), (f"{gpus_per_node} {gpu.name} per node are linked by {name}: bridges join {bridged} of them",)
    return link_named(name), ()


def cluster_for(
    gpu: Gpu | str,
    gpus: int,
    gpus_per_node: int | None = None,
    intra: Link | str | None = None,
    inter: Link | str | None = None,
) -> Cluster:
    """Build the cluster of a job on ``gpus`` GPUs, with the usual links for what is not given.

    Within a node: NVLink of the catalogue's bandwidth, else PCIe of its generation; measured all-reduces where we have some
    and no link was given. Between nodes: the network of NVIDIA's own system with that GPU, else 100 Gb/s Ethernet per node;
    ``assumptions`` says so.

    Raises:
        InputError: unknown GPU or link, or the GPUs do not fill the nodes.
    """
    gpu = load_catalog().resolve(gpu) if isinstance(gpu, str) else gpu
    assumptions: list[str] = []
    if gpus_per_node is None:
        gpus_per_node = min(gpus, 8)
        if gpus > gpus_per_node:
            assumptions.append(f"nodes have {gpus_per_node} GPUs")
    gpus_per_node = min(gpus, gpus_per_node)
    if gpus % gpus_per_node:
        raise InputError(f"{gpus} GPUs do not fill nodes of {gpus_per_node}; give a multiple, or other nodes")
    measured: Mapping[int, AllReduceFit] = {}
    if intra is None:
        intra, assumed = _link_within(gpu, gpus_per_node)
        measured = fitted_all_reduces(gpu.name)
        if gpus_per_node > 1:
            assumptions += assumed
    if gpus == gpus_per_node:
        inter = None
    elif inter is None:
        usual = _USUAL_NETWORK.get(gpu.architecture or "") if "SXM" in gpu.name else None
        inter = link_named(usual or _OTHER_NETWORK)
        whose = "GPU" if inter.per == "gpu" else "node"
        assumptions.append(f"nodes are linked by {inter.name}, {inter.bandwidth * 8 / 1e9:g} Gb/s per {whose}")
    intra = link_named(intra) if isinstance(intra, str) else intra
    inter = link_named(inter) if isinstance(inter, str) else inter
    return Cluster(gpu, gpus_per_node, intra, inter, measured, assumptions=tuple(assumptions))


LAUNCH_SECONDS = 8.4e-6
"""Start of a collective (NCCL 2.10, src/graph/tuning.cc, baseLat of ring and Simple)."""


def all_reduce_seconds(cluster: Cluster, nbytes: float, ranks: int, stride: int = 1) -> float:
    """Seconds to sum ``nbytes`` over the group on every rank of it: ring, hierarchical or tree."""
    if ranks == 1 or nbytes == 0:
        return 0.0
    by_ring = _ring_seconds(cluster, nbytes, ranks, stride, passes=2)
    members, nodes = cluster.placement(ranks, stride)
    if nodes == 1:
        return by_ring
    hops = (members - 1) * cluster.intra.latency + math.ceil(math.log2(nodes)) * _latency_between(cluster)
    return min(by_ring, LAUNCH_SECONDS + 2 * hops + 2 * nbytes / _slowest_bandwidth(cluster, members))


def all_gather_seconds(cluster: Cluster, nbytes: float, ranks: int, stride: int = 1) -> float:
    """Seconds until every rank holds the ``nbytes`` of which each had a share; as long takes a sum of which each keeps one."""
    return _ring_seconds(cluster, nbytes, ranks, stride, passes=1)


reduce_scatter_seconds = all_gather_seconds


def point_to_point_seconds(cluster: Cluster, nbytes: float, stride: int = 1, ranks: int = 2) -> float:
    """Seconds of the slowest transfer of ``nbytes`` between neighbours of a group of ``ranks`` ranks ``stride`` apart."""
    if ranks == 1 or nbytes == 0:
        return 0.0
    if cluster.placement(ranks, stride).nodes == 1:
        return LAUNCH_SECONDS + cluster.intra.latency + nbytes / cluster.intra_bandwidth
    # The GPUs that send across the border of a node are those that lie less than a stride before it.
    senders = min(stride, cluster.gpus_per_node)
    return LAUNCH_SECONDS + _latency_between(cluster) + nbytes / cluster.inter_bandwidth(senders)


def _ring_seconds(cluster: Cluster, nbytes: float, ranks: int, stride: int, passes: int) -> float:
    """``passes`` times around the ring (a reduce-scatter or an all-gather is one), flat or by nodes, the faster."""
    if ranks == 1 or nbytes == 0:
        return 0.0
    members, nodes = cluster.placement(ranks, stride)
    if nodes == 1:
        return _within_node(cluster, nbytes, ranks, passes)
    steps = (ranks - nodes) * cluster.intra.latency + (nodes - 1) * _latency_between(cluster)
    flat = LAUNCH_SECONDS + passes * (steps + (ranks - 1) / ranks * nbytes / _slowest_bandwidth(cluster, members))
    if members == 1:
        return flat
    # Between nodes each member passes its share of the buffer on, over its part of the network.
    share = (nodes - 1) * (_latency_between(cluster) + nbytes / nodes / _network_bandwidth(cluster, members))
    return min(flat, _within_node(cluster, nbytes, members, passes) + passes * share)


def _within_node(cluster: Cluster, nbytes: float, ranks: int, passes: int) -> float:
    """As measured (an all-reduce is two passes), else by ring."""
    if measured := cluster.measured.get(ranks):
        return float(measured.seconds(nbytes)) * passes / 2
    steps = passes * (ranks - 1)
    return LAUNCH_SECONDS + steps * (cluster.intra.latency + nbytes / ranks / cluster.intra_bandwidth)


def _network_bandwidth(cluster: Cluster, members: int) -> float:
    """Bytes/s between nodes of a group with ``members`` ranks in each, while its neighbours communicate too."""
    return members * cluster.inter_bandwidth(cluster.gpus_per_node)


def _slowest_bandwidth(cluster: Cluster, members: int) -> float:
    """Bytes/s of a ring through several nodes."""
    network = _network_bandwidth(cluster, members)
    return min(network, cluster.intra_bandwidth) if members > 1 else network


def _latency_between(cluster: Cluster) -> float:
    return cluster.inter.latency if cluster.inter else 0.0
