"""The one exception for whatever a user handed in; the command line turns it into one sentence and exit code 2."""


class InputError(ValueError):
    """Bad input: the message says what, the value seen, and the remedy, in one sentence."""
