"""What communication costs: links and clusters, collectives over them, measured all-reduces where there are some."""

from epochcast.analyzer.backends.distributed.communication.cluster import Cluster, cluster_for
from epochcast.analyzer.backends.distributed.communication.collectives import (
    all_gather_seconds,
    all_reduce_seconds,
    point_to_point_seconds,
    reduce_scatter_seconds,
)
from epochcast.analyzer.backends.distributed.communication.links import Link, link_named, load_links
from epochcast.analyzer.backends.distributed.communication.measured import (
    AllReduceFit,
    fitted_all_reduces,
)

__all__ = [
    "AllReduceFit",
    "Cluster",
    "Link",
    "all_gather_seconds",
    "all_reduce_seconds",
    "cluster_for",
    "fitted_all_reduces",
    "link_named",
    "load_links",
    "point_to_point_seconds",
    "reduce_scatter_seconds",
]
