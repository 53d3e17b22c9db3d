"""Node analyzers behind one name: each of its addresses is one of them.

A headless Service of Kubernetes is such a name: its addresses are those of the pods that are ready now, one on each node.
"""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from . import NodeReport, TelemetryError
from .nodes import NodeSource
from .settings import NodeSettings

log = logging.getLogger(__name__)

# One that did not answer is not asked again for so long: it would hold up the others at each poll.
PAUSE_S = 60.0


@dataclass
class _Node:
    """The node analyzer at one address; ``due``: when it is to be asked next, by the monotonic clock."""

    source: NodeSource
    due: float = -math.inf


class NodeAddresses:
    """All node analyzers that a name stands for; see `TelemetrySource`. The name is looked up anew at each poll."""

    kind = "node"

    def __init__(self, settings: NodeSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; nothing is looked up yet. Raises InputError where a file of the settings cannot be read."""
        self.name = settings.url
        self.interval_s = settings.interval
        self._settings = settings
        self._clock = clock
        self._nodes: dict[str, _Node] = {}  # by address, as it stands in a URL
        NodeSource(settings).close()

    def close(self) -> None:
        """Close the connections."""
        for node in list(self._nodes.values()):
            node.source.close()

    def poll(self) -> Sequence[NodeReport]:
        """Give what is new of all nodes; see `TelemetrySource`. One that fails is left out unless none answers."""
        self._look_up()
        found: list[NodeReport] = []
        answered, failure = False, TelemetryError(f"no node analyzer behind {self.name} has answered lately")
        for node in self._nodes.values():
            if node.due > self._clock():
                continue
            try:
                found += node.source.poll()
                answered, node.due = True, -math.inf
            except TelemetryError as error:
                log.warning("%s", error)
                failure, node.due = error, self._clock() + PAUSE_S
        if not answered:
            raise failure
        return found

    def _look_up(self) -> None:
        """Have a source for each address that the name has now, and for no other."""
        parts = urlsplit(self._settings.url)
        try:
            told = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
        except OSError as error:  # also while no pod is ready: the name has no address then
            raise TelemetryError(f"node analyzers {self.name}: the name has no address ({error.strerror or error})") from error
        addresses = {f"[{place[0]}]" if family == socket.AF_INET6 else str(place[0]) for family, *_, place in told}
        for address in self._nodes.keys() - addresses:
            self._nodes.pop(address).source.close()
        for address in sorted(addresses - self._nodes.keys()):
            url = parts._replace(netloc=f"{address}:{parts.port or 80}").geturl()
            self._nodes[address] = _Node(NodeSource(replace(self._settings, url=url, every_address=False)))
