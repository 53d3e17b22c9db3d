"""What can be rented: instances with their GPUs and prices, from the shipped table, the user's file or a public price list."""

from .instance import Instance, Market
from .price_table import load_instances, load_to_update, stale, write_instances

__all__ = ["Instance", "Market", "load_instances", "load_to_update", "stale", "write_instances"]
