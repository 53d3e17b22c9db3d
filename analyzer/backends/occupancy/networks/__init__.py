"""Networks by name, with the sizes that apply to each; they are built on the meta device, which takes no memory."""

from epochcast.analyzer.backends.occupancy.networks.known_networks import NETWORKS, complete

__all__ = ["NETWORKS", "complete"]
