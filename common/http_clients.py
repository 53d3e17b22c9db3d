"""Whose connections an HTTP server holds, and which of them make room for others."""

from __future__ import annotations

from collections import defaultdict
from typing import Protocol


class Connection(Protocol):
    """What can be cut off, like an asyncio task."""

    def cancel(self) -> object:
        """Cut it off."""


class Clients:
    """Open connections; the oldest whose request is not whole yet makes room for others."""

    def __init__(self, most: int, most_per_address: int) -> None:
        self._most, self._most_per_address = most, most_per_address
        self._address: dict[Connection, str] = {}
        # Of each address, those that have not sent their request yet, oldest first.
        self._unfinished: dict[str, dict[Connection, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._address)

    def add(self, connection: Connection, address: str) -> None:
        """Take in a connection, or one whose next request is awaited, and close another where there are too many."""
        self._address[connection] = address
        self._unfinished[address][connection] = None
        if len(self._unfinished[address]) > self._most_per_address:
            self._close_oldest(address)
        elif len(self._address) > self._most:
            self._close_oldest(max(self._unfinished, key=lambda known: len(self._unfinished[known])))

    def is_whole(self, connection: Connection | None) -> None:
        """Keep a connection from making room: its request is whole."""
        if connection is not None:
            self._forget(connection)

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self._forget(connection)
        self._address.pop(connection, None)

    def _forget(self, connection: Connection) -> None:
        address = self._address.get(connection, "")
        self._unfinished[address].pop(connection, None)
        if not self._unfinished[address]:
            del self._unfinished[address]

    def _close_oldest(self, address: str) -> None:
        connection = next(iter(self._unfinished[address]))
        self._forget(connection)
        connection.cancel()
