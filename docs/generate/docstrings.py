"""What a class's docstring says of its attributes, in either of the two ways in which this code says it."""

import re
from itertools import zip_longest

from markdown import prose


def summary(kind: object) -> str:
    """The first paragraph."""
    return prose((kind.__doc__ or "").split("\n\n")[0])


def meanings(kind: type) -> dict[str, str]:
    """Attribute -> meaning, from the docstrings of the class and its bases: "``a``, ``b``: meaning." or "a, b: meaning"."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        text = re.sub(r"[ \t]*\n[ \t]*", "\n", base.__doc__ or "")
        _, listed, attributes = text.partition("Attributes:\n")
        if listed:
            attributes = attributes.split("\n\n")[0]
            for told, meaning in re.findall(r"^([a-z0-9_, ]+): (.*(?:\n(?![a-z0-9_, ]+: ).+)*)", attributes, re.MULTILINE):
                found |= dict.fromkeys(re.split(r",\s*", told), _sentence(meaning))
            continue
        names = set(getattr(base, "__annotations__", ()))
        marked = list(re.finditer(r"((?:``\w+``(?:,\s+| and\s+)?)+):\s", text))
        for mark, following in zip_longest(marked, marked[1:]):
            told = re.findall(r"``(\w+)``", mark[1])
            if set(told) <= names:
                found |= dict.fromkeys(told, _sentence(text[mark.end() : following.start() if following else len(text)]))
    return found


def _sentence(text: str) -> str:
    """One line that begins with a capital, unless it begins with code, and ends in a full stop."""
    line = " ".join(prose(text).split()).rstrip(".;") + "."
    return line[:1].upper() + line[1:]
