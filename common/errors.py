"""The one error of the agent and the analyzer for what a user handed in."""


class InputError(ValueError):
    """Bad input: the message says what, the value seen, and the remedy, in one sentence. Exit code 2."""


# A sentence says what is wrong first and the remedy last; what was handed in comes between, and may be a whole file.
LONGEST_SENTENCE, ITS_END = 300, 110


def in_one_line(error: Exception) -> str:
    """What an error says, in one line of at most `LONGEST_SENTENCE` characters; its middle goes."""
    text = " ".join(str(error).split())
    if len(text) <= LONGEST_SENTENCE:
        return text
    return f"{text[: LONGEST_SENTENCE - ITS_END - 3]} … {text[-ITS_END:]}"
