"""The one exception for whatever a user handed in."""


class InputError(ValueError):
    """Bad input; the message is one sentence that says what, the value seen and the remedy."""
