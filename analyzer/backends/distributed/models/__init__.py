"""Models to predict for: built in, by Hugging Face configuration, or the user's own.

Only ``building`` loads torch when it is imported.
"""

from __future__ import annotations

from pathlib import Path

from epochcast.analyzer.backends.distributed.models.configuration import NAMED, Configuration, from_text, named, read_config
from epochcast.analyzer.backends.distributed.models.user_module import UserModule, load
from epochcast.analyzer.backends.network.factory import IMPORT_PATH


def resolve(text: str, batch: int | None = None, sequence_length: int | None = None) -> Configuration | UserModule:
    """What the user calls a model, by the form of the text.

    ``….json`` is a Hugging Face configuration, ``style:key=value,…`` a model by its numbers, ``package.module:factory`` a
    module of the user's own (whose factory may take ``batch`` and ``sequence_length``), anything else a built-in model's name.

    Raises:
        InputError: there is no such model, or it cannot be read or built.
    """
    if text.endswith(".json"):
        return read_config(Path(text))
    if IMPORT_PATH.fullmatch(text):
        return load(text, batch, sequence_length)
    return from_text(text) if ":" in text else named(text)


__all__ = ["NAMED", "Configuration", "UserModule", "from_text", "load", "named", "read_config", "resolve"]
