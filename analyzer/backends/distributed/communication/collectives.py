"""Seconds of a collective over a group of ranks: latency and bandwidth of each algorithm, the fastest taken.

Ring: Thakur, Rabenseifner and Gropp 2005, section 4 (all-reduce as reduce-scatter and all-gather). Tree between nodes: double
binary trees, Sanders, Speck and Träff 2009, as NCCL has them since 2.4. Hierarchical: reduce-scatter within the node,
all-reduce of each share between nodes, all-gather within the node. If the cluster has measured all-reduces, they replace
the part within a node. NCCL has no hierarchical ring of its own: its trees come to the same time over two nodes, its
flat ring takes 44 % longer over three and 5 % over sixteen where only the network counts. SHARP (NVLS, in-network reduction)
is not modelled.

``ranks`` and ``stride`` place the group: tensor ranks are 1 apart, data ranks t, pipeline ranks d x t; all the groups of a
kind communicate at once and share the network of their nodes. ``nbytes`` is always the whole buffer: what a rank holds
before an all-reduce or reduce-scatter, and after an all-gather.
"""

from __future__ import annotations

import math

from epochcast.analyzer.backends.distributed.communication.cluster import Cluster

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
