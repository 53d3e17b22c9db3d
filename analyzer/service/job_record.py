"""What the store keeps of a job: so that its id stays the same after a restart, and that it is still answered when it ended."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from epochcast.analyzer.jobs.clusters import Known
from epochcast.analyzer.jobs.watched import WatchedJob, read_watched_job, watched_job_json
from epochcast.analyzer.telemetry.gpu_report import Report, read_report, report_json

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JobRecord:
    """A job as it was last published.

    Attributes:
        answer: all of it.
        reports: of its GPUs, without their epochs.
        last_active: unix seconds at which it last went on.
    """

    answer: WatchedJob
    reports: tuple[Report, ...]
    last_active: float

    @property
    def members(self) -> dict[str, float]:
        """UUID of a GPU -> `Report.job_since` there."""
        return {report.device.uuid: report.job_since or 0.0 for report in self.reports}

    @property
    def known(self) -> Known:
        """What the grouping needs to know of it."""
        answer = self.answer
        return Known(answer.id, answer.grouped_by, answer.title, answer.since or 0.0, self.members)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "answer": watched_job_json(self.answer).decode(),
            "reports": [report_json(report) for report in self.reports],
        }

    @classmethod
    def from_json(cls, data: Any, last_active: float) -> JobRecord | None:
        """Build it again; None, and a line in the log, where another version wrote it otherwise."""
        try:
            return cls(read_watched_job(data["answer"]), tuple(map(read_report, data["reports"])), last_active)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("an ended job is skipped because another version wrote it: %s", error)
            return None
