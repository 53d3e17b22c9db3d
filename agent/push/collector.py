"""The pusher's own figures on ``/metrics``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from .pusher import Pusher

PREFIX = "epochcast_agent_push"


class PushCollector(Collector):
    """Families about remote write. Each sample taken from the stores is accepted, rejected, dropped, out of order or queued."""

    def __init__(self, pusher: Pusher) -> None:
        self._pusher = pusher

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the families."""
        pusher, backlog, sender = self._pusher, self._pusher.backlog, self._pusher.sender
        yield CounterMetricFamily(f"{PREFIX}_samples", "Samples that the store accepted.", sender.sent)
        yield CounterMetricFamily(
            f"{PREFIX}_dropped_samples",
            "Samples that made room for newer ones while the store did not answer.",
            backlog.dropped,
        )
        yield CounterMetricFamily(
            f"{PREFIX}_out_of_order_samples",
            "Samples left out because a newer one of their series was queued before: the clock was set back.",
            pusher.late_samples,
        )
        yield CounterMetricFamily(f"{PREFIX}_rejected_samples", "Samples that the store refused for good.", sender.rejected)
        yield CounterMetricFamily(
            f"{PREFIX}_lost_rows",
            "Rows of a device that were overwritten before they were read.",
            pusher.lost_rows,
        )
        yield GaugeMetricFamily(f"{PREFIX}_queue_samples", "Samples that wait for the store.", backlog.samples)
        yield GaugeMetricFamily(
            f"{PREFIX}_queue_capacity_samples", "Most samples that can wait; the oldest make room.", backlog.capacity
        )
        requests = CounterMetricFamily(
            f"{PREFIX}_requests", "Requests by HTTP status, error where no answer came.", labels=["code"]
        )
        for code, count in sorted(sender.requests.copy().items()):
            requests.add_metric([code], count)
        yield requests
        yield CounterMetricFamily(f"{PREFIX}_retries", "Pauses before the oldest samples were tried again.", sender.retries)
        success = GaugeMetricFamily(
            f"{PREFIX}_last_success_timestamp_seconds", "Unix time at which the store last accepted samples.", labels=()
        )
        if sender.last_success is not None:
            success.add_metric([], sender.last_success)
        yield success
