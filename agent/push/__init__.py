"""Remote write: every sample, with its own timestamp, to a Prometheus-compatible store.

One thread turns what is new in the stores into compressed requests (`pusher`, `series`, `wire`), another sends them
(`sender`); between them is a bounded queue (`backlog`), so that a slow or absent store costs neither samples nor ticks.
"""

from epochcast.agent.push.pusher import PushCollector, Pusher

__all__ = ["PushCollector", "Pusher"]
