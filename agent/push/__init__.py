"""Remote write: every sample, with its own timestamp, to a Prometheus-compatible store.

One thread turns what is new in the stores into compressed requests (`pusher`, `series`, `wire`), another sends them
(`sender`); between them lies a bounded queue (`backlog`), so that a store that is slow or away costs neither samples nor ticks.
"""

from .pusher import PushCollector, Pusher

__all__ = ["PushCollector", "Pusher"]
