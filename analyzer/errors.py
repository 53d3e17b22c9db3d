"""What can go wrong and is said in one sentence; the command line turns it into that sentence and an exit code."""


class InputError(ValueError):
    """Bad input: the message says what, the value seen, and the remedy, in one sentence. Exit code 2."""


class AgentError(ConnectionError):
    """The agent did not answer, or not as an Epochcast agent does. Exit code 1."""
