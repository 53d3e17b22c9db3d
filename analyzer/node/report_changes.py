"""Which reports have changed since a client read them: a node has some kilobytes of each GPU, and a new pulse every second."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from itertools import count

from epochcast.analyzer.telemetry.gpu_report import Pulse, Report


class ReportChanges:
    """Counts changes; any thread may ask."""

    def __init__(self) -> None:
        """Nothing has changed yet."""
        self._run = secrets.token_hex(4)  # marks of another run mean nothing here
        self._numbers = count(1)
        self._newest: dict[str, tuple[int, Report]] = {}
        self._lock = threading.Lock()

    def since(self, mark: str, reports: Mapping[str, Report], most: int) -> tuple[str, list[Report], dict[str, Pulse], bool]:
        """Return what a client lacks since ``mark``, the longest changed first.

        Args:
            mark: of the client's last answer; all have changed since one that is not known.
            reports: the newest, by UUID.
            most: reports in a page.

        Returns:
            A mark for its next request, reports, the pulses of what it has, and whether there is more.
        """
        run, _, number = mark.partition("-")
        seen = int(number) if run == self._run and number.isdecimal() else 0
        with self._lock:
            for uuid, report in sorted(reports.items()):
                if uuid not in self._newest or not report.is_like(self._newest[uuid][1]):
                    self._newest[uuid] = next(self._numbers), report
            numbers = {uuid: self._newest[uuid][0] for uuid in reports}
        changed = sorted((uuid for uuid in reports if numbers[uuid] > seen), key=lambda uuid: numbers[uuid])
        until = max((numbers[uuid] for uuid in changed[:most]), default=seen)
        pulses = {uuid: report.pulse for uuid, report in reports.items() if numbers[uuid] <= seen}
        return f"{self._run}-{until}", [reports[uuid] for uuid in changed[:most]], pulses, len(changed) > most
