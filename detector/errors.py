"""The one error of this room."""


class InputError(ValueError):
    """Something that the caller handed in cannot be used; the message names it, the value seen and the remedy."""
