"""What can go wrong and is said in one sentence; the command line turns it into that sentence and an exit code."""

from epochcast.common.errors import InputError

__all__ = ["AgentError", "InputError"]


class AgentError(ConnectionError):
    """The agent did not answer, or not as an Epochcast agent does. Exit code 1."""
