"""What the report says of a fleet's GPUs: what was found on them, how idle they were, how whole their data are.

GPUs come by one at a time and only sums and the worst few are kept, so that ten thousand take no more memory than ten.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from typing import Any

from epochcast.analyzer.fleet.finding import SIMULATED, Failure, Finding
from epochcast.analyzer.fleet.largest import Largest
from epochcast.analyzer.fleet.savings import GpuPrices

TABLE_ROWS = 25
"""Rows of each table of the report; the Parquet files have all."""

# Kinds of problems and failures that are counted apart; what differs in its figures alone is one kind.
_MOST_KINDS = 200

_HOUR_S = 3600.0

# A hole so long is none of a recorder that stumbled: the clock was set, or the machine was off.
_LONG_HOLE_S = 86_400.0

# Epoch lengths are counted in bins that begin at 1, 2 and 5 times each power of ten.
_STEPS = (1.0, 2.0, 5.0, 10.0)


class GpuTally:
    """Adds up findings and failures."""

    def __init__(self, prices: GpuPrices) -> None:
        """Begin with nothing; ``prices`` say what idle hours cost."""
        self._prices = prices
        self._uuids: set[str] = set()
        self._nodes: set[str] = set()
        self._traces = self._simulated = self._failed = self._with_problems = self._assumed = 0
        self._cpu_s = 0.0
        self._start, self._end = math.inf, -math.inf
        self._seen = SeenTime()
        self._steady = math.inf, -math.inf  # first and last tick of traces without a long hole
        self._verdicts: Counter[str] = Counter()
        self._lengths: Counter[tuple[float, float]] = Counter()
        self._models: dict[str, _Hours] = {}
        self._idle = _Hours()
        self._problems, self._errors = _Kinds(), _Kinds()
        self._idlest, self._worst_quality, self._failures = Largest(TABLE_ROWS), Largest(TABLE_ROWS), Largest(TABLE_ROWS)

    def add(self, finding: Finding) -> None:
        """Count one trace."""
        self._traces += 1
        self._uuids.add(finding.device.uuid)
        self._nodes.add(finding.device.node)
        self._simulated += finding.device.simulated
        self._cpu_s += finding.cpu_s
        self._start, self._end = min(self._start, finding.start), max(self._end, finding.end)
        if finding.quality.longest_hole_s > _LONG_HOLE_S:  # only its work shows where the telemetry is between such holes
            for span in finding.spans:
                self._seen.add(span.start, span.end)
        else:
            self._seen.add(finding.start, finding.end)
            self._steady = min(self._steady[0], finding.start), max(self._steady[1], finding.end)
        verdicts = {span.report.detection.verdict for span in finding.spans}
        verdict = next((name for name in ("epochs", "steps", "none") if name in verdicts), "idle")
        self._verdicts[verdict] += 1
        for span in finding.spans:
            if span.report.detection.verdict == "epochs" and span.report.detection.period_s:
                self._lengths[_bin(span.report.detection.period_s)] += 1
        self._add_idle(finding)
        self._add_quality(finding)

    def fail(self, failure: Failure) -> None:
        """Count a trace that could not be analysed."""
        self._failed += 1
        self._errors.add(failure.error, failure.trace)
        self._failures.add(0.0, failure.trace, {"trace": failure.trace, "error": failure.error})

    @property
    def hours(self) -> float:
        """Time in which any GPU was watched."""
        return self._seen.seconds / _HOUR_S

    @property
    def coverage(self) -> float | None:
        """Share that traces cover of all GPUs' time from the first tick to the last, at most 1 (copies); None without any."""
        first, last = self._steady if self._steady[0] < self._steady[1] else (self._start, self._end)
        return min(1.0, self._idle.seconds / ((last - first) * len(self._uuids))) if last > first else None

    def to_json(self) -> dict[str, Any]:
        """Return what was counted, as JSON values."""
        return {
            "gpus": len(self._uuids),
            "nodes": len(self._nodes),
            "traces": self._traces,
            "failed": self._failed,
            "simulated": self._simulated,
            "start": self._start if self._traces else None,
            "end": self._end if self._traces else None,
            "hours": self.hours,
            "coverage": self.coverage,
            "gpu_hours": self._idle.seconds / _HOUR_S,
            "cpu_s": self._cpu_s,
            "found": {verdict: self._verdicts[verdict] for verdict in ("epochs", "steps", "none", "idle")},
            "epoch_lengths": [
                {"from_s": low, "to_s": high, "count": count} for (low, high), count in sorted(self._lengths.items())
            ],
            "models": [{"gpu": name, **hours.to_json()} for name, hours in sorted(self._models.items())],
            "idle": {**self._idle.to_json(), "assumed": self._assumed, "gpus": self._idlest.seen, "worst": self._idlest.rows},
            "quality": {
                "with_problems": self._with_problems,
                "problems": self._problems.rows,
                "worst": self._worst_quality.rows,
            },
            "failures": {"kinds": self._errors.rows, "rows": self._failures.rows},
        }

    def _add_idle(self, finding: Finding) -> None:
        device = finding.device
        price = self._prices.of(device)
        usd = None
        if finding.idle_s is not None and price.usd_per_hour is not None:
            usd = finding.idle_s / _HOUR_S * price.usd_per_hour
        held_idle_usd = price.held_idle_usd(finding.held_idle_s)
        for hours in (self._idle, self._models.setdefault(device.name, _Hours())):
            hours.add(finding, usd, held_idle_usd)
        self._assumed += price.assumed and usd is not None
        if finding.idle_s:
            idle_hours = finding.idle_s / _HOUR_S
            row = {
                "trace": finding.trace,
                "node": device.node,
                "gpu": device.name,
                "idle_ratio": finding.idle_s / finding.seconds if finding.seconds else None,
                "idle_hours": idle_hours,
                "usd": usd,
                "assumed": price.assumed,
                "held_idle_hours": None if finding.held_idle_s is None else finding.held_idle_s / _HOUR_S,
                "held_idle_usd": held_idle_usd,
            }
            self._idlest.add(idle_hours if usd is None else usd, finding.trace, row)

    def _add_quality(self, finding: Finding) -> None:
        quality = finding.quality
        problems = [problem for problem in quality.problems if problem != SIMULATED]
        self._with_problems += bool(problems)
        for problem in problems:
            self._problems.add(problem, finding.trace)
        if problems or quality.missing_ratio > 0:
            row = {
                "trace": finding.trace,
                "missing_ratio": quality.missing_ratio,
                "longest_hole_s": quality.longest_hole_s,
                "hertz": quality.hertz,
                "silent_metrics": len(quality.silent_metrics),
                "problems": problems,
            }
            self._worst_quality.add(len(problems) + quality.missing_ratio, finding.trace, row)


@dataclass
class _Hours:
    """Of some of the traces: how many, their seconds, those of which idleness is known, and what idleness cost.

    ``held_``: the same of being held but idle; of ``held_unpriced_s`` it is not known what is rented.
    """

    traces: int = 0
    seconds: float = 0.0
    known_s: float = 0.0
    idle_s: float = 0.0
    usd: float = 0.0
    unpriced: int = 0
    held_known_s: float = 0.0
    held_idle_s: float = 0.0
    held_usd: float = 0.0
    held_unpriced_s: float = 0.0

    def add(self, finding: Finding, usd: float | None, held_idle_usd: float | None) -> None:
        self.traces += 1
        self.seconds += finding.seconds
        if finding.held_idle_s is not None:
            self.held_known_s += finding.seconds
            self.held_idle_s += finding.held_idle_s
            self.held_usd += held_idle_usd or 0.0
            self.held_unpriced_s += finding.held_idle_s if held_idle_usd is None else 0.0
        if finding.idle_s is None:
            return
        self.known_s += finding.seconds
        self.idle_s += finding.idle_s
        self.usd += usd or 0.0
        self.unpriced += usd is None

    def to_json(self) -> dict[str, Any]:
        return {
            "traces": self.traces,
            "gpu_hours": self.seconds / _HOUR_S,
            "known_hours": self.known_s / _HOUR_S,
            "idle_hours": self.idle_s / _HOUR_S,
            "idle_ratio": self.idle_s / self.known_s if self.known_s else None,
            "idle_usd": self.usd,
            "unpriced": self.unpriced,
            **self._held(),
        }

    def _held(self) -> dict[str, float | None]:
        """Hours; nothing where no trace shows them, and no cost where none of them has a price."""
        if not self.held_known_s:
            return dict.fromkeys(("held_idle_hours", "held_idle_unpriced_hours", "held_idle_usd"))
        return {
            "held_idle_hours": self.held_idle_s / _HOUR_S,
            "held_idle_unpriced_hours": self.held_unpriced_s / _HOUR_S,
            "held_idle_usd": self.held_usd if self.held_unpriced_s < self.held_idle_s or not self.held_idle_s else None,
        }


class _Kinds:
    """Sentences counted by what is left of them without their figures and quoted names, each with one example."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[int, str, str]] = {}
        self._others = 0

    def add(self, sentence: str, trace: str) -> None:
        kind = re.sub(r"'[^']*'|\d[\d.,:]*", "…", sentence)
        known = self._counted.get(kind)
        if known is None and len(self._counted) >= _MOST_KINDS:
            self._others += 1
            return
        count, first, where = known or (0, sentence, trace)
        self._counted[kind] = (count + 1, *min((where, first), (trace, sentence))[::-1])

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The commonest first, at most `TABLE_ROWS`."""
        ordered = sorted(self._counted.items(), key=lambda item: (-item[1][0], item[0]))
        commonest = ordered[:TABLE_ROWS]
        left = self._others + sum(count for _, (count, _, _) in ordered[TABLE_ROWS:])
        rows = [{"count": count, "example": sentence, "trace": trace} for _, (count, sentence, trace) in commonest]
        return rows + ([{"count": left, "example": "of other kinds", "trace": ""}] if left else [])


def _bin(seconds: float) -> tuple[float, float]:
    """The steps around a length."""
    power = 10.0 ** math.floor(math.log10(seconds))
    place = next(number for number, step in enumerate(_STEPS[1:]) if seconds < step * power or step == _STEPS[-1])
    return _STEPS[place] * power, _STEPS[place + 1] * power


class SeenTime:
    """Grows by intervals; what overlaps is one, so that a fleet's ten thousand of one night are held as one."""

    def __init__(self) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []

    def add(self, start: float, end: float) -> None:
        """Take in an interval [s]; nothing where it has no length."""
        if end <= start:
            return
        first, last = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [start], [end]

    @property
    def seconds(self) -> float:
        """Length of all together."""
        return sum(end - start for start, end in zip(self._starts, self._ends, strict=True))
