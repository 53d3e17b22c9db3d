"""What a node's own analyzer found: reports of its GPUs, and their epochs with profiles, as far as they are new.

Several node analyzers may share one name: each of its addresses is one of them. A headless Service of Kubernetes is such
a name: its addresses are those of the pods that are ready now, one on each node.
"""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from multiprocessing.pool import ThreadPool
from typing import NamedTuple
from urllib.parse import urlsplit

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.telemetry import NodeReport, TelemetryError, TelemetrySource
from epochcast.analyzer.telemetry.endpoint import Endpoint, HttpSource
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, Pulse, Report, read_epoch, read_report
from epochcast.analyzer.telemetry.settings import NodeSettings
from epochcast.analyzer.telemetry.shard import WHOLE, Shard

REPORTS, EPOCHS = "/api/v1/reports", "/api/v1/epochs"
REPORTS_SCHEMA, EPOCHS_SCHEMA = "epochcast.reports/v1", "epochcast.epochs/v1"
#: Epochs of a GPU in one request, the most that a node returns: what a service that was away for long finds.
MOST_EPOCHS = 5000
#: Epochs that end by less than this apart (seconds) count as one moment on both sides.
ROUNDING_S = 1e-3

log = logging.getLogger(__name__)

#: Nodes behind one name that are requested at once.
MOST_THREADS = 16

# One that did not answer is not polled again for so long: it would hold up the others at each poll.
PAUSE_S = 60.0


class _Delivered(NamedTuple):
    """What was delivered of a GPU: ``epochs`` by start and end [unix s], the ``newest`` end, and the report's counter then.

    ``whole``: epochs of a report that were all delivered; a report that has not changed has the same object.
    """

    epochs: set[tuple[float, float]]
    newest: float
    seen: int
    whole: Sequence[EpochRecord] | None = None


class NodeSource(HttpSource):
    """One node analyzer; see `TelemetrySource`."""

    kind = "node"

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__(settings.url, settings.interval, Endpoint("node analyzer", settings))
        self._settings = settings
        self._delivered: dict[str, _Delivered] = {}  # by UUID
        self._reports: dict[str, Report] = {}  # the newest, by UUID
        self._mark = ""  # of the answer that they come from

    def poll(self) -> Sequence[NodeReport]:
        """Give the reports, and the epochs that are new; see `TelemetrySource`.

        A report that cannot be read is left out unless all are such. Of one that has not changed the node sends the pulse
        alone, if it knows how to. Where very many epochs are new, some come with the next poll.
        """
        failure: TelemetryError | None = None
        reports: list[NodeReport] = []
        received = 0
        for report in self._read_reports():
            if isinstance(report, TelemetryError):
                failure = report
                continue
            try:
                epochs = self._new_epochs(report) if received < MOST_EPOCHS else []
            except TelemetryError as error:
                failure = error
            else:
                received += len(epochs)
                reports.append(NodeReport(report, tuple(epochs)))
        if failure is not None and not reports:
            raise failure
        return reports

    def _read_reports(self) -> Iterator[Report | TelemetryError]:
        """The newest report of each GPU, page by page, and why one cannot be read."""
        named: dict[str, None] = {}
        complete, more = True, True
        while more:
            answer = self._endpoint.json(REPORTS, [("since", self._mark)], schema=REPORTS_SCHEMA)
            rows, pulses, problems = answer.get("reports"), answer.get("pulses", {}), answer.get("problems", [])
            if not isinstance(rows, list) or not isinstance(pulses, dict) or not isinstance(problems, list):
                raise TelemetryError(f"node analyzer {self.name}{REPORTS} does not answer with a list of reports")
            self.problems = [f"{self.name}: {problem}" for problem in map(str, problems)]
            for uuid, pulse in pulses.items():
                try:
                    self._reports[uuid] = self._reports[uuid].with_pulse(Pulse(*pulse))
                    named[uuid] = None
                except (KeyError, TypeError):  # without a mark the next answer has it whole
                    complete = False
            for row in rows:
                try:
                    report = self._placed(read_report(row))
                    self._reports[report.device.uuid] = report
                    named[report.device.uuid] = None
                except InputError as error:
                    complete = False
                    yield TelemetryError(f"node analyzer {self.name}: {error}")
            self._mark, more = str(answer.get("mark", "")), answer.get("more") is True
        self._mark = self._mark if complete else ""
        yield from [self._reports[uuid] for uuid in named]

    def _placed(self, report: Report) -> Report:
        """What is rented, where the node does not say it itself."""
        device, place = report.device, self._settings
        if device.instance or not any(place.rented.values()):
            return report
        return replace(report, device=replace(device, **place.rented))

    def _new_epochs(self, report: Report) -> list[EpochRecord]:
        """The epochs with profiles that were not given yet.

        A report may be ahead of what its node has written: epochs that it names are requested until they are there.
        """
        uuid = report.device.uuid
        delivered = self._delivered.get(uuid)
        if delivered is not None and delivered.whole is report.epochs and delivered.seen == report.epochs_seen:
            return []
        ended = {(epoch.start, epoch.end) for epoch in report.epochs}
        query = [("gpu", uuid), ("limit", str(MOST_EPOCHS))]
        if delivered is not None:
            other = [end for start, end in ended if (start, end) not in delivered.epochs]
            if not other and report.epochs_seen == delivered.seen:
                self._delivered[uuid] = delivered._replace(whole=report.epochs)
                return []
            # Where the counter has moved and the report has no other epoch, the job has ended since, or is another.
            query.append(("since", repr(min([*other, delivered.newest]) - ROUNDING_S)))
        answer = self._endpoint.json(EPOCHS, query, schema=EPOCHS_SCHEMA)
        try:
            epochs = [read_epoch(epoch) for epoch in answer["epochs"]]
        except (KeyError, TypeError, AttributeError, InputError) as error:
            raise TelemetryError(f"node analyzer {self.name}{EPOCHS} does not list epochs of {uuid}: {error}") from error
        received = {(epoch.start, epoch.end) for epoch in epochs}
        known = received if delivered is None else (delivered.epochs & ended) | received
        newest = max((end for _, end in known), default=0.0 if delivered is None else delivered.newest)
        self._delivered[uuid] = _Delivered(known, newest, report.epochs_seen)
        return [epoch for epoch in epochs if delivered is None or (epoch.start, epoch.end) not in delivered.epochs]


class NodeAddresses(TelemetrySource):
    """All node analyzers behind a name; see `TelemetrySource`. The name is looked up again at each poll."""

    kind = "node"

    def __init__(self, settings: NodeSettings, shard: Shard = WHOLE, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; nothing is looked up yet. Raises InputError where a file of the settings cannot be read."""
        self.name = settings.url
        self.interval_s = settings.interval
        self._settings = settings
        self._shard = shard
        self._clock = clock
        self._nodes: dict[str, NodeSource] = {}  # by address, as written in a URL
        self._pause_until: dict[str, float] = {}  # by address, of those that did not answer, by the clock
        NodeSource(settings).close()

    def close(self) -> None:
        """Close the connections."""
        for node in list(self._nodes.values()):
            node.close()

    @property
    def clock_offset_s(self) -> float | None:
        """See `TelemetrySource`."""
        return max((node.clock_offset_s or 0.0 for node in list(self._nodes.values())), key=abs, default=None)

    def poll(self) -> Sequence[NodeReport]:
        """Give what is new of all nodes; see `TelemetrySource`. One that fails is left out unless none answers."""
        self._look_up()
        due = [address for address in self._nodes if self._pause_until.get(address, -math.inf) <= self._clock()]
        failure = TelemetryError(f"no node analyzer behind {self.name} has answered lately")
        reports: list[NodeReport] = []
        answered = not self._nodes  # all of them may be of other shards
        with ThreadPool(max(1, min(MOST_THREADS, len(due)))) as threads:  # not an executor's, for which the process would wait
            for address, answer in zip(due, threads.imap(self._polled, [self._nodes[address] for address in due]), strict=True):
                if isinstance(answer, TelemetryError):
                    log.warning("%s", answer)
                    failure, self._pause_until[address] = answer, self._clock() + PAUSE_S
                else:
                    reports += answer
                    answered = True
        self.problems = [problem for node in self._nodes.values() for problem in node.problems]
        if not answered:
            raise failure
        return reports

    @staticmethod
    def _polled(node: NodeSource) -> Sequence[NodeReport] | TelemetryError:
        try:
            return node.poll()
        except TelemetryError as error:
            return error

    def _look_up(self) -> None:
        """Have a source for each address that the name has now, and for no other."""
        parts = urlsplit(self._settings.url)
        try:
            answers = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
        except OSError as error:  # also while no pod is ready: the name has no address then
            raise TelemetryError(f"node analyzers {self.name}: the name has no address ({error.strerror or error})") from error
        addresses = {f"[{place[0]}]" if family == socket.AF_INET6 else str(place[0]) for family, *_, place in answers}
        for address in self._nodes.keys() - addresses:
            self._nodes.pop(address).close()
            self._pause_until.pop(address, None)
        for address in sorted(filter(self._shard.has, addresses - self._nodes.keys())):
            url = parts._replace(netloc=f"{address}:{parts.port or 80}").geturl()
            self._nodes[address] = NodeSource(replace(self._settings, url=url, every_address=False))
