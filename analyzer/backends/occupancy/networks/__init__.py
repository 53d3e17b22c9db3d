"""Networks by name, with the sizes that apply to each; they are built on the meta device, which takes no memory."""

from .known_networks import NETWORKS, Network, complete

__all__ = ["NETWORKS", "Network", "complete"]
