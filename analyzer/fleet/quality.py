"""How whole a trace is: what is missing in it, and sentences on what keeps it from telling all that it could."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.fleet.finding import Quality
from epochcast.analyzer.fleet.stretches import SHORTEST_S
from epochcast.analyzer.fleet.trace_rows import Late, Piece
from epochcast.analyzer.traces.held_idle import HeldIdle
from epochcast.detector.stream.work import HOLE_S
from epochcast.regressor.profile import METRICS

Array = NDArray[np.float64]

# What predictions rest on most. Of a trace without any other metric they rest on data sheets.
_WANTED = ("gr_engine_active", "sm_active", "dram_active", "power")

# A tick is missing where the next one comes later than this many steps; a share above the last is reported.
_LATE_STEPS, _REPORTED_MISSING = 1.5, 0.02

# Sampling slower than this hides short epochs: an epoch needs some ten samples.
_SLOW_S = 5.0

_MOST_PROBLEMS = 20


class TraceQuality:
    """Counts while a trace is gone through: first all times (`add_times`), then all readings (`add_readings`).

    Attributes:
        rows: so far.
        first, last: unix seconds of the first and the last row.
        step_s: median seconds between rows, of the first piece; None before two rows.
        beginnings: unix seconds at which rows begin: of the first one, and of each after a hole of 300 s.
        problems: sentences of others, reported with its own.
        held_idle: how long the GPU was held but idle, of the readings so far.
        worked, idle_s: whether it worked at all, and seconds in which it did not; set by who knows.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.first = self.last = np.nan
        self.step_s: float | None = None
        self.beginnings: list[float] = []
        self.problems: list[str] = []
        self.held_idle = HeldIdle()
        self.worked = False
        self.idle_s: float | None = None
        self._longest = 0.0
        self._holes = 0
        self._holes_s = 0.0
        self._read: dict[str, bool] = {}

    def add_times(self, time: Array) -> None:
        """Take in the times of the next piece."""
        if not time.size:
            return
        if not self.rows:
            self.first = float(time[0])
            self.beginnings.append(self.first)
        before = time if not self.rows else np.concatenate([[self.last], time])
        steps = np.diff(before)
        if steps.size:
            self.step_s = self.step_s or max(1e-3, float(np.median(steps)))
            self._longest = max(self._longest, float(steps.max()))
            self.beginnings += before[1:][steps > HOLE_S].tolist()
            holes = steps[steps > max(1.0, 10 * self.step_s)]
            self._holes += holes.size
            self._holes_s += float(holes.sum())
        self.rows, self.last = self.rows + time.size, float(time[-1])

    def add_readings(self, piece: Piece) -> None:
        """Take in which metrics have a reading in the next piece, and whether the GPU is held but idle."""
        self.held_idle.add(piece.time, piece.values)
        for name, values in piece.values.items():
            self._read[name] = self._read.get(name, False) or not np.isnan(values).all()

    def result(self, late: Late, *, analysed: bool) -> Quality:
        """Return it, with a sentence on each problem.

        Args:
            late: rows that were left out.
            analysed: the GPU worked long enough to be analysed.
        """
        assert self.step_s is not None
        expected = round((self.last - self.first) / self.step_s) + 1
        missing = min(1.0, max(0.0, 1 - self.rows / expected))
        hole = self._longest if self._longest > _LATE_STEPS * self.step_s else 0.0
        read = tuple(name for name, there in self._read.items() if there)
        silent = tuple(name for name, there in self._read.items() if not there)
        said: list[str] = []
        if late.rows:
            said.append(f"the clock was set back, by {late.seconds:.3g} s at most: {late.rows} rows are skipped")
        if self._holes:
            said.append(f"{self._holes} hole(s) of more than ten ticks, the longest of {self._longest:.4g} s")
        if missing > _REPORTED_MISSING:
            said.append(f"{missing:.0%} of the ticks are missing")
        if self.step_s > _SLOW_S:
            said.append(f"sampled every {self.step_s:.3g} s: epochs shorter than {10 * self.step_s:.0f} s cannot be seen")
        if unknown := [name for name in _WANTED if name in silent or name not in self._read]:
            said.append(f"without readings of {', '.join(unknown)} predictions are less certain")
        if others := [name for name in silent if name in METRICS and name not in _WANTED]:
            said.append(f"no reading of {', '.join(others)}")
        if self.worked and not analysed:
            said.append(f"the GPU worked, but never for {SHORTEST_S:.0f} s: too short to analyse")
        said += list(dict.fromkeys(self.problems))
        if len(said) > _MOST_PROBLEMS:
            said = [*said[: _MOST_PROBLEMS - 1], f"and {len(said) - _MOST_PROBLEMS + 1} more"]
        return Quality(
            rows=self.rows,
            hertz=1 / self.step_s if self.rows > 2 else None,
            missing_ratio=missing,
            longest_hole_s=hole,
            holes_s=self._holes_s,
            metrics=read,
            silent_metrics=silent,
            problems=tuple(said),
        )
