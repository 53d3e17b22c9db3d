"""What a node's own analyzer found: reports of its GPUs, and their epochs with profiles, as far as they are new.

Several node analyzers may stand behind one name: each of its addresses is one of them. A headless Service of Kubernetes is such
a name: its addresses are those of the pods that are ready now, one on each node.
"""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import urlsplit

from ..errors import InputError
from . import NodeReport, TelemetryError
from .endpoint import Endpoint
from .gpu_report import EpochRecord, Pulse, Report, epoch_from_json
from .settings import NodeSettings

REPORTS, EPOCHS = "/api/v1/reports", "/api/v1/epochs"
REPORTS_SCHEMA, EPOCHS_SCHEMA = "epochcast.reports/v1", "epochcast.epochs/v1"
#: Epochs of a GPU in one request, the most that a node returns: what a service that was away for long finds.
MOST_EPOCHS = 5000
#: Epochs that end by less than this apart (seconds) count as one moment on both sides.
ROUNDING_S = 1e-3

log = logging.getLogger(__name__)

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


class NodeSource:
    """One node analyzer; see `TelemetrySource`."""

    kind = "node"

    def __init__(self, settings: NodeSettings) -> None:
        self.name = settings.url
        self.interval_s = settings.interval
        self._settings = settings
        self._endpoint = Endpoint("node analyzer", settings)
        self._delivered: dict[str, _Delivered] = {}  # by UUID
        self._reports: dict[str, Report] = {}  # the newest, by UUID
        self._mark = ""  # of the answer that they come from

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()

    @property
    def clock_offset_s(self) -> float | None:
        """See `TelemetrySource`."""
        return self._endpoint.clock_offset_s

    def poll(self) -> Sequence[NodeReport]:
        """Give the reports, and the epochs that are new; see `TelemetrySource`.

        A report that cannot be read is left out unless all are such. Of one that has not changed the node sends the pulse
        alone, if it knows how to.
        """
        query = [("since", self._mark)] if self._mark else []
        answer = self._endpoint.json(REPORTS, query, schema=REPORTS_SCHEMA)
        rows, pulses = answer.get("reports"), answer.get("pulses", {})
        if not isinstance(rows, list) or not isinstance(pulses, dict):
            raise TelemetryError(f"node analyzer {self.name}{REPORTS} does not answer with a list of reports")
        current: list[Report] = []
        failure: TelemetryError | None = None
        try:
            known = [(self._reports[uuid], pulse) for uuid, pulse in pulses.items() if uuid in self._reports]
            current += [report.with_pulse(Pulse(*pulse)) for report, pulse in known]
        except TypeError as error:
            failure = TelemetryError(f"node analyzer {self.name}{REPORTS} does not answer with pulses: {error}")
        for row in rows:
            try:
                current.append(self._placed(Report.from_json(row)))
            except InputError as error:
                failure = TelemetryError(f"node analyzer {self.name}: {error}")
        # What could not be read is requested again.
        self._mark = str(answer.get("mark", "")) if failure is None else ""
        self._reports = {report.device.uuid: report for report in current}
        reports: list[NodeReport] = []
        for report in current:
            try:
                reports.append(NodeReport(report, tuple(self._new_epochs(report))))
            except TelemetryError as error:
                failure = error
        if failure is not None and not reports:
            raise failure
        return reports

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
            epochs = [epoch_from_json(epoch) for epoch in answer["epochs"]]
        except (KeyError, TypeError, AttributeError, InputError) as error:
            raise TelemetryError(f"node analyzer {self.name}{EPOCHS} does not list epochs of {uuid}: {error}") from error
        received = {(epoch.start, epoch.end) for epoch in epochs}
        known = received if delivered is None else (delivered.epochs & ended) | received
        newest = max((end for _, end in known), default=0.0 if delivered is None else delivered.newest)
        self._delivered[uuid] = _Delivered(known, newest, report.epochs_seen)
        return [epoch for epoch in epochs if delivered is None or (epoch.start, epoch.end) not in delivered.epochs]


@dataclass
class _Node:
    """The node analyzer at one address; ``due``: when it is to be polled next, by the monotonic clock."""

    source: NodeSource
    due: float = -math.inf


class NodeAddresses:
    """All node analyzers behind a name; see `TelemetrySource`. The name is looked up anew at each poll."""

    kind = "node"

    def __init__(self, settings: NodeSettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; nothing is looked up yet. Raises InputError where a file of the settings cannot be read."""
        self.name = settings.url
        self.interval_s = settings.interval
        self._settings = settings
        self._clock = clock
        self._nodes: dict[str, _Node] = {}  # by address, as written in a URL
        NodeSource(settings).close()

    def close(self) -> None:
        """Close the connections."""
        for node in list(self._nodes.values()):
            node.source.close()

    @property
    def clock_offset_s(self) -> float | None:
        """See `TelemetrySource`."""
        return max((node.source.clock_offset_s or 0.0 for node in list(self._nodes.values())), key=abs, default=None)

    def poll(self) -> Sequence[NodeReport]:
        """Give what is new of all nodes; see `TelemetrySource`. One that fails is left out unless none answers."""
        self._look_up()
        reports: list[NodeReport] = []
        answered, failure = False, TelemetryError(f"no node analyzer behind {self.name} has answered lately")
        for node in self._nodes.values():
            if node.due > self._clock():
                continue
            try:
                reports += node.source.poll()
                answered, node.due = True, -math.inf
            except TelemetryError as error:
                log.warning("%s", error)
                failure, node.due = error, self._clock() + PAUSE_S
        if not answered:
            raise failure
        return reports

    def _look_up(self) -> None:
        """Have a source for each address that the name has now, and for no other."""
        parts = urlsplit(self._settings.url)
        try:
            answers = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
        except OSError as error:  # also while no pod is ready: the name has no address then
            raise TelemetryError(f"node analyzers {self.name}: the name has no address ({error.strerror or error})") from error
        addresses = {f"[{place[0]}]" if family == socket.AF_INET6 else str(place[0]) for family, *_, place in answers}
        for address in self._nodes.keys() - addresses:
            self._nodes.pop(address).source.close()
        for address in sorted(addresses - self._nodes.keys()):
            url = parts._replace(netloc=f"{address}:{parts.port or 80}").geturl()
            self._nodes[address] = _Node(NodeSource(replace(self._settings, url=url, every_address=False)))
