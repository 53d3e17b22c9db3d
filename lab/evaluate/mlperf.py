"""Node power of MLPerf training runs, ``round,system,benchmark,run,source,t_ms,watts``, and their events.

A run has up to a few sources (nodes), each read about every two seconds by a clock of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import numeric_column, parse_csv, read_text
from epochcast.analyzer.traces.trace import Trace, make_trace
from epochcast.detector.labels import Labels

RUN = ["system", "benchmark", "run"]
_POWER = {*RUN, "source", "t_ms", "watts"}
_EVENTS = {*RUN, "t_ms", "key"}

#: The year 5138; unix nanoseconds lie beyond.
LATEST_MS = 1e14


def mlperf_runs(power: Path, events: Path) -> Iterator[tuple[str, Trace, Labels]]:
    """Every MLPerf run with power readings and at least two epoch marks.

    Yields (``SYSTEM/BENCHMARK/RUN``, trace, labels); the labels' ``cls`` is the benchmark. A run's last mark ends its last
    epoch: what follows has no known end. Raises InputError for files of another kind.
    """
    marks = marks_by_run(read_text(events), str(events))
    has_run = False
    for (system, benchmark, run), frame in power_by_run(read_text(power), str(power)):
        times = marks.get((system, benchmark, run))
        if times is not None:
            has_run = True
            name = f"{system}/{benchmark}/{run}"
            starts = tuple(times)
            labels = Labels(starts, (*starts[1:], starts[-1]), True, cls=benchmark)
            yield name, make_trace(frame, {"source": "mlperf"}, name), labels
    if not has_run:
        raise InputError(f"no run of {str(power)!r} has epoch marks in {str(events)!r}: give the events of the same runs")


def power_by_run(text: str, name: str) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    """((system, benchmark, run), frame) of every run: ``time`` and one column ``power_SOURCE`` [W] per source.

    The first source's readings are the rows. A reading of another source goes to the nearest row, if within half an interval,
    and the nearest one stays if two do: nothing is interpolated, and no reading counts twice. A run whose readings are
    another's, to the millisecond, is that run under a second name and left out.
    """
    table = _table(text, name, _POWER)
    table["watts"] = numeric_column(table["watts"], "watts", name)
    seen: set[str] = set()
    for key, readings in table.groupby(RUN, sort=True):
        content = readings[["source", "t_ms", "watts"]].to_csv(index=False)
        if content not in seen:
            seen.add(content)
            system, benchmark, run = (str(part) for part in key)
            yield (system, benchmark, run), _grid(readings)


def marks_by_run(text: str, name: str) -> dict[tuple[str, str, str], list[float]]:
    """Unix seconds of each run's epoch marks: its ``epoch_start``, else its ``eval_start``, if there are two.

    ResNet's runs evaluate after every fourth epoch, and mark both.
    """
    table = _table(text, name, _EVENTS)
    marks = {}
    for key, events in table.groupby(RUN, sort=True):
        system, benchmark, run = (str(part) for part in key)
        for kind in ("epoch_start", "eval_start"):
            times = np.unique(events.loc[events["key"] == kind, "t_ms"].to_numpy(dtype=np.float64)) / 1000
            if times.size >= 2:
                marks[system, benchmark, run] = times.tolist()
                break
    return marks


def _table(text: str, name: str, columns: set[str]) -> pd.DataFrame:
    table = parse_csv(text, name)
    if missing := sorted(columns - set(table.columns)):
        raise InputError(f"{name!r} has no column {missing[0]!r}: MLPerf's files have {', '.join(sorted(columns))}")
    times = numeric_column(table["t_ms"], "t_ms", name)
    if times.isna().any():
        row = int(np.flatnonzero(times.isna())[0])
        raise InputError(f"{name!r} has no time in data row {row + 1}; give every row its t_ms, unix milliseconds")
    if (beyond := times.abs() > LATEST_MS).any():
        row = int(np.flatnonzero(beyond)[0])
        raise InputError(f"{name!r} has the time {times.iloc[row]:g} in data row {row + 1}; t_ms is in unix milliseconds")
    return table.assign(t_ms=times.astype(np.int64))


def _grid(readings: pd.DataFrame) -> pd.DataFrame:
    # Node clocks are set back now and then by less than an interval: sorted, one reading per time.
    readings = readings.sort_values("t_ms", kind="stable").drop_duplicates(["source", "t_ms"])
    sources = {str(name): rows for name, rows in readings.groupby("source", sort=True)[["t_ms", "watts"]]}
    times = next(iter(sources.values()))["t_ms"].reset_index(drop=True)
    powers = {f"power_{name}": _at_rows(times, rows) for name, rows in sources.items()}
    return pd.DataFrame({"time": times / 1000, **powers})


def _at_rows(times: pd.Series[int], readings: pd.DataFrame) -> NDArray[np.float64]:
    """The readings at the rows' times [ms], NaN where none is nearest and within half an interval."""
    reach = int(times.diff().median() / 2) if len(times) > 1 else 0
    rows = pd.DataFrame({"t_ms": times, "row": times})
    near = pd.merge_asof(readings, rows, on="t_ms", direction="nearest", tolerance=reach).dropna(subset=["row"])
    nearest_first = (near["t_ms"] - near["row"]).abs().sort_values(kind="stable").index
    values = near.loc[nearest_first].drop_duplicates("row").set_index("row")["watts"]
    return values.reindex(times).to_numpy(dtype=np.float64)
