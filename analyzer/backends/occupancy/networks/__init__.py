"""Networks by name, with the sizes that apply to each; they are built on the meta device, which takes no memory."""

from .known_networks import FAMILIES, NETWORKS, Network, complete, family

__all__ = ["FAMILIES", "NETWORKS", "Network", "complete", "family"]
