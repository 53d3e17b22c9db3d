"""The one error that this room raises for what a user handed in."""

from ..common.errors import InputError

__all__ = ["InputError"]
