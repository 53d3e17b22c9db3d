"""The one error of the agent and the analyzer for what a user handed in."""


class InputError(ValueError):
    """Bad input: the message says what, the value seen, and the remedy, in one sentence. Exit code 2."""
