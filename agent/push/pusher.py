"""The remote-write pusher: takes what is new from the stores every few seconds and has it sent; its figures on ``/metrics``."""

from __future__ import annotations

import logging
import math
import socket
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from epochcast.agent.config import Push
from epochcast.agent.exposition import LABELS
from epochcast.agent.push.backlog import Backlog
from epochcast.agent.push.sender import Sender
from epochcast.agent.push.series import DeviceSeries, SeriesBlock
from epochcast.agent.push.wire import STALE, Wire
from epochcast.common.errors import InputError
from epochcast.extras import how_to_install

if TYPE_CHECKING:
    from epochcast.agent.node import Node

log = logging.getLogger(__name__)

JOB = "epochcast-agent"
# Most samples of a request: two seconds of eight GPUs fit, and a store's limits (megabytes) are far away.
MOST_SAMPLES = 8000
FLUSH_S = 2.0


class Pusher:
    """Pushes all samples of a node from `start` to `stop`.

    ``hostname``: value of the label ``instance``, where a scrape would put the target's address. Raises InputError for
    settings that cannot be used, and where the extra ``agent-push`` is not installed. ``backlog``, ``sender``,
    ``lost_rows`` and ``late_samples`` hold the figures of `PushCollector`.
    """

    def __init__(self, node: Node, push: Push, hostname: str | None = None) -> None:
        for label in ("__name__", *LABELS):
            if label in push.labels:
                raise InputError(f"push.labels sets {label!r}, which distinguishes the GPUs' series; choose another name")
        self.backlog = Backlog(push.queue)
        try:
            self._wire = Wire()
            self.sender = Sender(push, self.backlog)
        except ImportError as error:
            raise InputError(f"push.url is set but {error.name} is not installed; {how_to_install('agent-push')}") from error
        self._node = node
        self._push = push
        self._labels = {"job": JOB, "instance": hostname or socket.gethostname(), **push.labels}
        self._most_samples = min(MOST_SAMPLES, push.queue // 2)
        self._request = self._wire.request()
        # By UUID, and never forgotten: a GPU that comes back must not send again what it has sent.
        self._devices: dict[str, DeviceSeries] = {}
        self._stopping = threading.Event()
        # Daemons: a store that does not answer must not keep the agent from ending.
        self._collecting = threading.Thread(target=self._run, name="push", daemon=True)
        self._sending = threading.Thread(target=self.sender.run, name="push-send", daemon=True)

    @property
    def lost_rows(self) -> int:
        """Rows that were overwritten before they were read."""
        return sum(device.lost_rows for device in list(self._devices.values()))

    @property
    def late_samples(self) -> int:
        """Samples left out because a newer one of their series was queued before."""
        return sum(device.late_samples for device in list(self._devices.values()))

    def take_over(self, old: Pusher) -> None:
        """Go on, before `start`, where a pusher that was stopped has ended: nothing is sent twice, what waits is sent."""
        self.backlog.take_over(old.backlog)
        self.sender.take_over(old.sender)
        for uuid, device in old._devices.items():
            self._devices[uuid] = self._follow()
            self._devices[uuid].take_over(device)

    def start(self) -> None:
        """Start pushing."""
        self._collecting.start()
        self._sending.start()

    def stop(self) -> None:
        """Send what is left and end the series, for at most `FLUSH_S` seconds; what then waits can be taken over.

        Call it when the samplers have ended.
        """
        deadline = time.monotonic() + FLUSH_S
        self._stopping.set()
        self.sender.hurry()
        for thread in (self._collecting, self._sending):
            thread.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        last = False
        while not last:
            last = self._stopping.wait(self._push.interval)
            try:
                self._collect(last)
            except Exception:
                # Even if these samples fail, later ones are still wanted.
                log.exception("remote write: samples could not be collected")
        self.backlog.close()

    def _collect(self, last: bool) -> None:
        """Queue what is new; ``last``: and end all series."""
        now = time.monotonic()
        present = {store.device.uuid: (sampler, store) for sampler in self._node.samplers for store in sampler.stores}
        for uuid in present.keys() - self._devices.keys():
            self._devices[uuid] = self._follow()
        for uuid, device in self._devices.items():
            sampler, store = present.get(uuid, (None, None))
            for block in device.news(store):
                self._add(block)
            silent = last or sampler is None or now - device.heard_at > sampler.source.silent_after
            self._end(device, device.live if silent else device.live - device.current)
        self._flush()

    def _follow(self) -> DeviceSeries:
        return DeviceSeries(self._wire, self._labels, self._push.quantise)

    def _add(self, block: SeriesBlock) -> None:
        """Put the rows into requests, none of which grows too large."""
        width = max(1, len(block.labels))
        start = 0
        while start < len(block.times):
            rows = (self._most_samples - self._request.samples) // width
            if rows < 1 and self._request.samples:
                self._flush()
                continue
            stop = start + max(1, rows)
            self._add_rows(block.rows(slice(start, stop)))
            start = stop

    def _add_rows(self, block: SeriesBlock) -> None:
        times = block.times.tolist()
        missing = np.count_nonzero(np.isnan(block.values), axis=1)
        for labels, values, gaps in zip(block.labels, block.values.tolist(), missing, strict=True):
            if not gaps:
                self._request.add(labels, times, values)
            elif measured := [(time, value) for time, value in zip(times, values, strict=True) if not math.isnan(value)]:
                self._request.add(labels, *zip(*measured, strict=True))

    def _end(self, device: DeviceSeries, series: set[bytes]) -> None:
        """Mark series as ended after their newest sample: a store would show that as the present for five minutes more."""
        if device.newest is None or not series:
            return
        device.newest += 1
        for labels in series:
            if self._request.samples >= self._most_samples:
                self._flush()
            self._request.add(labels, [device.newest], [STALE])
        device.live = device.live - series

    def _flush(self) -> None:
        if self._request.samples:
            self.backlog.put(self._request.encode())
            self._request = self._wire.request()


PREFIX = "epochcast_agent_push"


class PushCollector(Collector):
    """Families about remote write. Each sample taken from the stores is accepted, rejected, dropped, out of order or queued."""

    def __init__(self, pusher: Pusher) -> None:
        self._pusher = pusher

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the families."""
        pusher, backlog, sender = self._pusher, self._pusher.backlog, self._pusher.sender
        for name, text, count in (
            ("samples", "Samples that the store accepted.", sender.sent),
            ("dropped_samples", "Samples dropped for newer ones while the store did not answer.", backlog.dropped),
            (
                "out_of_order_samples",
                "Samples skipped because a newer sample of their series was already queued: the clock was set back.",
                pusher.late_samples,
            ),
            ("rejected_samples", "Samples that the store rejected permanently.", sender.rejected),
            ("lost_rows", "Rows of a device that were overwritten before they were read.", pusher.lost_rows),
        ):
            yield CounterMetricFamily(f"{PREFIX}_{name}", text, count)
        yield GaugeMetricFamily(f"{PREFIX}_queue_samples", "Samples that wait for the store.", backlog.samples)
        yield GaugeMetricFamily(
            f"{PREFIX}_queue_capacity_samples",
            "Most samples that can wait; beyond it the oldest are dropped.",
            backlog.capacity,
        )
        requests = CounterMetricFamily(
            f"{PREFIX}_requests", "Requests by HTTP status, or error if no answer came.", labels=["code"]
        )
        for code, count in sorted(sender.requests.copy().items()):
            requests.add_metric([code], count)
        yield requests
        yield CounterMetricFamily(f"{PREFIX}_retries", "Pauses before retrying the oldest samples.", sender.retries)
        success = GaugeMetricFamily(
            f"{PREFIX}_last_success_timestamp_seconds", "Unix time at which the store last accepted samples.", labels=()
        )
        if sender.last_success is not None:
            success.add_metric([], sender.last_success)
        yield success
