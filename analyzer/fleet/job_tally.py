"""What the report says of a fleet's jobs: what moving them would save, which are placed worst, which wait for a straggler.

Jobs come by one at a time and only sums and the worst few are kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from epochcast.analyzer.fleet.fleet_jobs import FleetJob
from epochcast.analyzer.fleet.gpu_tally import TABLE_ROWS
from epochcast.analyzer.fleet.largest import Largest
from epochcast.detector import Kind

_HOURS_PER_MONTH = 730.0

NO_CYCLE = "none"
"""Of jobs of which no seconds are known."""

# A month is shown only for a day or more, and where traces cover this share of the GPUs' time; else it would be made of gaps.
_LEAST_HOURS = 24.0
_LEAST_COVERAGE = 0.5


@dataclass
class _Money:
    """Of some jobs, of the time that was analysed: how many, USD that they cost and save, and both ends of the saving."""

    jobs: int = 0
    assumed: int = 0
    by_data_sheet: int = 0
    usd: float = 0.0
    saved_usd: float = 0.0
    low: float = 0.0
    high: float = 0.0

    def add(self, job: FleetJob) -> None:
        saving, recommendation = job.saving, job.recommendation
        assert saving is not None and recommendation is not None and recommendation.current is not None
        usd = saving.usd_per_hour * job.seconds / 3600
        self.jobs += 1
        self.assumed += recommendation.on.assumed
        self.by_data_sheet += saving.to.prediction.by_data_sheet
        self.usd += usd
        self.saved_usd += usd * saving.ratio
        self.low += usd * saving.low
        self.high += usd * saving.high


@dataclass
class _Cycle:
    """Jobs whose seconds are of a cycle of one kind."""

    jobs: int = 0
    gpu_hours: float = 0.0


class JobTally:
    """Adds up jobs."""

    def __init__(self) -> None:
        """Begin with none."""
        self._jobs = self._gpus_together = 0
        self._gpu_s = 0.0
        self._verdicts: Counter[str] = Counter()
        self._sizes: Counter[int] = Counter()
        self._cycles: dict[str, _Cycle] = defaultdict(_Cycle)
        self._sure, self._unsure, self._stay = _Money(), _Money(), _Money()
        self._unknown = 0
        self._waits_gpu_s = 0.0
        self._ofu_known_s = self._ofu_s = 0.0
        self._tensor_cores_idle = self._reduced_clock = 0
        self._dearest, self._worst, self._stragglers = Largest(TABLE_ROWS), Largest(TABLE_ROWS), Largest(TABLE_ROWS)

    def add(self, job: FleetJob, columns: Mapping[str, Any]) -> None:
        """Count one; ``columns`` are its row of `jobs_table`."""
        gpus = len(job.answer.gpus)
        self._jobs += 1
        self._gpus_together += gpus if gpus > 1 else 0
        self._gpu_s += job.gpu_s
        self._verdicts[job.answer.verdict] += 1
        self._sizes[gpus] += 1
        cycle = self._cycles[columns["cycle"] or job.answer.unit or NO_CYCLE]
        cycle.jobs += 1
        cycle.gpu_hours += columns["gpu_hours"]
        if job.answer.use.ofu is not None:
            self._ofu_known_s += job.gpu_s
            self._ofu_s += job.answer.use.ofu * job.gpu_s
        self._tensor_cores_idle += job.answer.tensor_cores_idle
        self._reduced_clock += job.answer.use.reduced_clock is not None
        row = {name: value for name, value in columns.items() if name in _TABLE_COLUMNS}
        self._add_saving(job, row)
        if job.straggler is not None:
            waiting = job.gpu_s - job.spans[job.straggler.place].seconds
            self._waits_gpu_s += job.straggler.waits * waiting
            self._stragglers.add(job.straggler.waits * waiting, job.answer.id, row)

    def to_json(self, hours: float, coverage: float | None) -> dict[str, Any]:
        """Return what was counted, as JSON values.

        Args:
            hours: in which any GPU was watched.
            coverage: share that was seen of all GPUs' time from the first tick of the fleet to its last.
        """
        saved = self._sure.saved_usd
        per_hour = saved / hours if hours else None
        listed = {row["job"] for row in self._dearest.rows}
        return {
            "jobs": self._jobs,
            "gpus_in_jobs_of_several": self._gpus_together,
            "job_gpu_hours": self._gpu_s / 3600,
            "job_verdicts": {verdict: self._verdicts[verdict] for verdict in ("epochs", "steps", "none")},
            "job_cycles": {kind: vars(self._cycles[kind]) for kind in (*get_args(Kind), NO_CYCLE) if kind in self._cycles},
            "use": {
                "ofu": self._ofu_s / self._ofu_known_s if self._ofu_known_s else None,
                "ofu_gpu_hours": self._ofu_known_s / 3600,
                "tensor_cores_idle_jobs": self._tensor_cores_idle,
                "reduced_clock_jobs": self._reduced_clock,
            },
            "job_sizes": [{"gpus": size, "jobs": count} for size, count in sorted(self._sizes.items())],
            "savings": {
                "sure": vars(self._sure),
                "unsure": vars(self._unsure),
                "stay": vars(self._stay),
                "unknown": self._unknown,
                "usd": self._sure.usd + self._unsure.usd + self._stay.usd,
                "usd_per_hour": per_hour,
                "usd_per_month": None
                if per_hour is None or hours < _LEAST_HOURS or coverage is None or coverage < _LEAST_COVERAGE
                else _HOURS_PER_MONTH * per_hour,
                "most": self._dearest.rows,
                "worst_placed": [row for row in self._worst.rows if row["job"] not in listed],
            },
            "stragglers": {
                "jobs": self._stragglers.seen,
                "gpu_hours": self._waits_gpu_s / 3600,
                "worst": self._stragglers.rows,
            },
        }

    def _add_saving(self, job: FleetJob, row: dict[str, Any]) -> None:
        saving = job.saving
        if saving is None:
            self._unknown += 1
        elif saving.ratio <= 0:
            self._stay.add(job)
        elif not job.sure:
            self._unsure.add(job)
        else:
            self._sure.add(job)
            self._dearest.add(job.saved_usd or 0.0, job.answer.id, row)
            self._worst.add(saving.ratio, job.answer.id, row)


# Columns of `jobs.parquet` that the report's tables show.
_TABLE_COLUMNS = frozenset(
    (
        *("job", "title", "gpu_count", "gpu_model", "nodes", "gpu_hours", "unit", "epoch_s", "simulated", "busy_ratio"),
        *("ofu", "tensor_cores_idle", "held_idle_s", "held_idle_usd", "reduced_clock"),
        *("idle_at_boundaries", "action", "advice", "best_by_data_sheet"),
        *("current_instance", "current_cloud", "current_assumed", "current_usd_per_hour"),
        *("best_instance", "best_cloud", "best_region", "best_gpu", "best_instances"),
        *("best_usd_per_hour", "best_ratio"),
        *("saving_ratio", "saving_ratio_low", "saving_ratio_high", "saving_usd_per_hour", "saving_usd"),
        *("straggler", "straggler_trace", "straggler_why", "waits"),
    )
)
