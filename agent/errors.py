"""The one error that this room raises for what a user handed in."""


class InputError(ValueError):
    """Something a user handed in cannot be used: one sentence naming what, the value seen and the remedy."""
