"""Names of kernels that fit on a line."""

from __future__ import annotations

import re

_SAID_EVERYWHERE = re.compile(r"^void |at::native::|\(anonymous namespace\)::")


def short_name(name: str, length: int) -> str:
    """The name without what most of PyTorch's kernels have in it, and its middle left out where it is longer than ``length``.

    Both ends stay: a kernel is told by its first word, and templates of one kernel by their last.
    """
    plain = _SAID_EVERYWHERE.sub("", name)
    if len(plain) <= length:
        return plain
    tail = (length - 1) // 2
    return f"{plain[: length - 1 - tail]}…{plain[-tail:]}"
