"""Which reports have changed since a client read them: a node has some kilobytes of each GPU, and a new pulse every second."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from itertools import count

from ..telemetry.gpu_report import Pulse, Report


class ReportChanges:
    """Counts changes; any thread may ask."""

    def __init__(self) -> None:
        """Nothing has changed yet."""
        self._run = secrets.token_hex(4)  # marks of another run mean nothing here
        self._numbers = count(1)
        self._newest: dict[str, tuple[int, Report]] = {}
        self._lock = threading.Lock()

    def since(self, mark: str, reports: Mapping[str, Report]) -> tuple[str, list[Report], dict[str, Pulse]]:
        """Return a mark for the next time, the reports that have changed since ``mark``, and the others' pulses by UUID.

        Args:
            mark: of the client's last answer; all have changed since one that is not known.
            reports: the newest, by UUID.
        """
        run, _, number = mark.partition("-")
        seen = int(number) if run == self._run and number.isdecimal() else 0
        with self._lock:
            for uuid, report in reports.items():
                if uuid not in self._newest or not report.is_like(self._newest[uuid][1]):
                    self._newest[uuid] = next(self._numbers), report
            numbers = {uuid: number for uuid, (number, _) in self._newest.items()}
        changed = [report for uuid, report in sorted(reports.items()) if numbers[uuid] > seen]
        pulses = {uuid: report.pulse for uuid, report in reports.items() if numbers[uuid] <= seen}
        return f"{self._run}-{max(numbers.values(), default=0)}", changed, pulses
