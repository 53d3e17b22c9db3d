"""What can be rented: instances with their GPUs and prices, from the shipped table, the user's file or a public price list."""

from epochcast.analyzer.jobs.prices.instance import Instance, Market, Offer
from epochcast.analyzer.jobs.prices.price_age import is_stale, stale_note
from epochcast.analyzer.jobs.prices.price_table import load_instances

__all__ = ["Instance", "Market", "Offer", "is_stale", "load_instances", "stale_note"]
