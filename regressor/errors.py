"""The one exception for bad input from a user."""


class InputError(ValueError):
    """Bad input; the message is one sentence that says what, the value seen and the remedy."""
