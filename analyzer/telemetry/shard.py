"""Which nodes each of several watchers has, so that each node is watched once: by a checksum of the node's name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from zlib import crc32

from epochcast.analyzer.errors import InputError


@dataclass(frozen=True)
class Shard:
    """One watcher among ``count``, the ``number``-th from 1."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard that ``2/4`` names; InputError where it is none."""
        match = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text)
        number, count = map(int, match.groups()) if match else (0, 0)
        if not 1 <= number <= count:
            raise InputError(f"the shard is {text!r:.60}; give its number and the number of shards, 1/4 to 4/4 for four")
        return cls(number, count)

    def has(self, node: str) -> bool:
        """Whether a node of this name is in it: the rule of docs/analyzer.md, "Ten thousand GPUs"."""
        return crc32(node.encode()) % self.count == self.number - 1


WHOLE = Shard()
