"""What can go wrong and is said in one sentence; the command line turns it into that sentence and an exit code."""

from epochcast.common.errors import InputError

__all__ = ["AgentError", "InputError", "type_and_text"]


def type_and_text(error: BaseException) -> str:
    """The class of an error of others and what it says, for a sentence."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


class AgentError(ConnectionError):
    """The agent did not answer, or not as an Epochcast agent does. Exit code 1."""
