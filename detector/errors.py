"""The one error of this room."""


class InputError(ValueError):
    """Unusable input from the caller; the message names it, the value seen and the remedy."""
