"""The reports in a state, of which only those are read that were written since the last time."""

from __future__ import annotations

from epochcast.analyzer.live.state_store import Heard, StateStore
from epochcast.analyzer.telemetry.gpu_report import Report


class StoredReports:
    """What a state has of its GPUs.

    Attributes:
        reports: of every GPU, by UUID, in order; the same object until another one is written, so that its pulse may be old.
        heard: when and how each of them was last reported.
    """

    def __init__(self, store: StateStore) -> None:
        """Nothing is read yet."""
        self.reports: dict[str, Report] = {}
        self.heard: dict[str, Heard] = {}
        self._store = store
        self._read_until = 0
        self._generation = store.generation

    def read(self) -> None:
        """Read what is new. Raises sqlite3.Error as the store does; then all is as before."""
        changed = self._store.changed_reports(self._read_until)
        heard = self._store.heard()  # later: a GPU whose report is there was heard
        if self._store.generation != self._generation:  # an empty file took the place of a damaged one
            self.reports, self._generation = {}, self._store.generation
            changed, heard = self._store.changed_reports(0), self._store.heard()
        known = self.reports | {uuid: report for _, uuid, report in changed}
        self._read_until = max((number for number, *_ in changed), default=self._read_until)
        self.reports = {uuid: report for uuid in heard if (report := known.get(uuid)) is not None}
        self.heard = {uuid: heard[uuid] for uuid in self.reports}
        if not self.reports:  # what is written into an empty table is counted from the beginning
            self._read_until = 0

    @property
    def newest(self) -> dict[str, Report]:
        """The reports, each with its newest pulse."""
        return {uuid: report.with_pulse(self.heard[uuid].pulse) for uuid, report in self.reports.items()}
