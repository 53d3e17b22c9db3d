"""Whose connections an HTTP server holds, and which of them make room for others."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any


class Clients:
    """The tasks of open connections; the oldest whose request is not whole yet makes room for others."""

    def __init__(self, most: int, most_per_address: int) -> None:
        self._most, self._most_per_address = most, most_per_address
        self._address: dict[asyncio.Task[None], str] = {}
        # Of each address, those that have not sent their request yet, oldest first.
        self._unfinished: dict[str, dict[asyncio.Task[None], None]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._address)

    def add(self, task: asyncio.Task[None], address: str) -> None:
        """Take in a connection, and close another where there are too many."""
        self._address[task] = address
        self._unfinished[address][task] = None
        if len(self._unfinished[address]) > self._most_per_address:
            self._close_oldest(address)
        elif len(self._address) > self._most:
            self._close_oldest(max(self._unfinished, key=lambda known: len(self._unfinished[known])))

    def is_whole(self, task: asyncio.Task[Any] | None) -> None:
        """Keep a connection from making room: its request is whole."""
        if task is not None:
            self._forget(task)

    def remove(self, task: asyncio.Task[None]) -> None:
        """Forget a connection that has ended."""
        self._forget(task)
        self._address.pop(task, None)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        address = self._address.get(task, "")
        self._unfinished[address].pop(task, None)
        if not self._unfinished[address]:
            del self._unfinished[address]

    def _close_oldest(self, address: str) -> None:
        task = next(iter(self._unfinished[address]))
        self._forget(task)
        task.cancel()
