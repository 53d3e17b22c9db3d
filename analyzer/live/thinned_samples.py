"""The samples of a GPU's present job, for profiles, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RECENT_ROWS = 6000
"""Rows kept as they came: ten minutes at 10 Hz. The profile of an epoch that is no longer is of all its samples."""

JOB_ROWS = 4096
"""Most rows of the whole job. Quantiles of so many differ from those of all by less than the telemetry's own noise."""


class ThinnedSamples:
    """All rows of the last minutes, and rows of the whole job, ever further apart as it grows.

    When the job's rows are `JOB_ROWS`, every second one goes, and from then on half as many are held. A row that is held has of
    each metric the newest reading since the row held before it, if there was any: of what is read once a second, no reading is
    lost until rows are a second apart. So what is held of a job is exact up to `JOB_ROWS` rows (about seven minutes at 10 Hz);
    afterwards it is an even sample of it.
    Readings are held in single precision, a column for each metric that was ever read.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._recent_time = np.empty(RECENT_ROWS)
        self._recent = np.empty((RECENT_ROWS, 0), dtype=np.float32)
        self._taken = 0  # rows ever; row i is in place i % RECENT_ROWS
        self._job_time = np.empty(JOB_ROWS)
        self._job = np.empty((JOB_ROWS, 0), dtype=np.float32)
        self._waiting = np.empty(0, dtype=np.float32)  # newest readings since the last row held
        self._held = self._skip = 0  # rows held, and rows to leave out before the next one is
        self._stride = 1

    def append(self, time: Array, values: Mapping[str, Array], *, of_job: bool = True) -> None:
        """Take in rows, later than all before; a metric that is left out has no reading.

        Args:
            time: (n,) unix seconds, ascending.
            values: name -> (n,).
            of_job: the GPU works; while it does not, the job keeps the rows that it has.
        """
        for name, column in values.items():
            if name not in self._names and not np.isnan(column).all():
                self._add_column(name)
        table = np.full((time.size, len(self._names)), np.nan, dtype=np.float32)
        for place, name in enumerate(self._names):
            if name in values:
                table[:, place] = values[name]
        for first in range(0, time.size, RECENT_ROWS):
            part = slice(first, first + RECENT_ROWS)
            places = (self._taken + np.arange(time[part].size)) % RECENT_ROWS
            self._recent_time[places], self._recent[places] = time[part], table[part]
            self._taken += places.size
        if of_job:
            self._extend(time, table)

    def begin_job(self, since: float) -> None:
        """Another job began at ``since`` [unix s]: rows before it are dropped, those since are taken from the last minutes."""
        time, table = self._rows_of_recent()
        if time.size and time[0] <= since:
            inside = time >= since
            self._begin(time[inside], table[inside])
        else:  # longer ago than the last minutes: what is left of it in the job's own rows
            held, job = self._job_time[: self._held], self._job[: self._held]
            first = int(np.searchsorted(held, since))
            stride, skip, waiting = self._stride, self._skip, self._waiting
            self._begin(held[first:].copy(), job[first:].copy())
            self._stride, self._skip, self._waiting = stride, skip, waiting

    def job(self) -> tuple[Array, dict[str, Array]]:
        """The job's rows: time (n,) and metric -> (n,); metrics without any reading are left out."""
        return self._columns(self._job_time[: self._held], self._job[: self._held])

    def between(self, start: float, end: float) -> tuple[Array, dict[str, Array]]:
        """Rows from ``start`` up to ``end`` [unix s]: all where the last minutes hold them, else of the job's rows."""
        time, table = self._rows_of_recent()
        if not time.size or time[0] > start:
            time, table = self._job_time[: self._held], self._job[: self._held]
        first, last = np.searchsorted(time, [start, end])
        return self._columns(time[first:last], table[first:last])

    def _add_column(self, name: str) -> None:
        self._names.append(name)
        self._recent = _with_column(self._recent)
        self._job = _with_column(self._job)
        self._waiting = np.append(self._waiting, np.float32(np.nan))

    def _begin(self, time: Array, table: NDArray[np.float32]) -> None:
        self._held, self._skip, self._stride = 0, 0, 1
        self._waiting = np.full(len(self._names), np.nan, dtype=np.float32)
        self._extend(time, table)

    def _extend(self, time: Array, table: NDArray[np.float32]) -> None:
        """Hold every `_stride`-th of these rows, thinning whenever there is no room."""
        while True:
            wanted = np.arange(self._skip, time.size, self._stride)
            now = wanted[: JOB_ROWS - self._held]
            rest = time.size if now.size == wanted.size else int(wanted[now.size])
            self._job_time[self._held : self._held + now.size] = time[now]
            self._job[self._held : self._held + now.size] = self._newest(table[:rest], now)
            self._held += now.size
            if rest == time.size and now.size == wanted.size:
                self._skip += wanted.size * self._stride - time.size
                return
            time, table, self._skip = time[rest:], table[rest:], 0
            self._thin()

    def _newest(self, table: NDArray[np.float32], rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """At each of these rows of the table the newest readings since the one before it; those after the last one wait."""
        joined = np.concatenate([self._waiting[None], table])
        at = np.maximum.accumulate(np.where(np.isnan(joined), -1, np.arange(joined.shape[0])[:, None]), axis=0)
        places = np.concatenate([[-1], rows + 1, [joined.shape[0] - 1]])
        newest_at = at[places[1:]]
        newest = np.where(
            newest_at > places[:-1, None], np.take_along_axis(joined, np.maximum(newest_at, 0), axis=0), np.float32(np.nan)
        )
        self._waiting = newest[-1]
        return newest[:-1]

    def _thin(self) -> None:
        """Drop every second row. `JOB_ROWS` is even, so the last one goes, and the next in turn is to be held."""
        even, odd = self._job[::2], self._job[1::2]
        self._waiting = np.where(np.isnan(self._waiting), odd[-1], self._waiting)
        kept = even.copy()
        kept[1:] = np.where(np.isnan(even[1:]), odd[:-1], even[1:])
        self._held, self._stride = JOB_ROWS // 2, 2 * self._stride
        self._job_time[: self._held], self._job[: self._held] = self._job_time[::2].copy(), kept

    def _rows_of_recent(self) -> tuple[Array, NDArray[np.float32]]:
        if self._taken <= RECENT_ROWS:
            return self._recent_time[: self._taken], self._recent[: self._taken]
        turn = -(self._taken % RECENT_ROWS)
        return np.roll(self._recent_time, turn), np.roll(self._recent, turn, axis=0)

    def _columns(self, time: Array, table: NDArray[np.float32]) -> tuple[Array, dict[str, Array]]:
        columns = {name: table[:, place].astype(np.float64) for place, name in enumerate(self._names)}
        return time.copy(), {name: values for name, values in columns.items() if not np.isnan(values).all()}


def _with_column(table: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.concatenate([table, np.full((table.shape[0], 1), np.nan, dtype=np.float32)], axis=1)
