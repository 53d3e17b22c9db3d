"""Epochs that a user, a training log or the run itself knows: they win, and the telemetry checks them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import read_table, read_text
from epochcast.analyzer.traces.labels import read_labels
from epochcast.analyzer.traces.logs import tensorboard_events, wandb_run
from epochcast.analyzer.traces.logs.logged_run import KnownEpochs, epochs_of, last_part
from epochcast.analyzer.traces.timestamps import unix_seconds
from epochcast.analyzer.words import length
from epochcast.detector import Cycle, Detection, Epoch, Kind
from epochcast.detector.methods.track.periods import SAME

_STARTS = ("start", "begin", "epoch_start", "_timestamp", "time", "timestamp", "wall time", "t", "date")
_ENDS = ("end", "epoch_end")
_DAY_S = 86400.0
_TIME = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?|(?<![\d:])\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"|(?<![\d.])\d{10}(?:\.\d+)?(?![\d.])"
)


def known_epochs(
    epoch_s: float | None = None, file: str | None = None, pattern: str | None = None, cycle: Kind | None = None
) -> KnownEpochs | None:
    """The epochs by their length, or by a file: a wandb run, TensorBoard's events, a CSV or JSON of marks, or a training log.

    Args:
        epoch_s: seconds of one.
        file: with the marks.
        pattern: regular expression of the lines of a training log that mark an epoch; its group, if any, counts them.
        cycle: what the found cycle is, where its length is not known.

    Raises:
        InputError: both are given, or the file marks less than two epochs.
    """
    if sum(given is not None for given in (epoch_s, file, cycle)) > 1:
        raise InputError("what repeats is given in several ways; give one of --epoch-time, --epochs-from and --cycle")
    if cycle is not None:
        return KnownEpochs("--cycle", 0.0, kind=cycle)
    if pattern is not None and file is None:
        raise InputError("--epochs-pattern needs the training log that it applies to; name it with --epochs-from FILE")
    if epoch_s is not None:
        if not 0 < epoch_s < math.inf:
            raise InputError(f"the time of an epoch is {epoch_s:g} s; give it above 0, such as 7m")
        return KnownEpochs("its stated time", epoch_s)
    if file is None:
        return None
    spans = _spans(file, pattern)
    if len(spans) < 2:
        raise InputError(
            f"{file!r} marks {len(spans)} epochs, and two are needed; name a wandb run, TensorBoard's events, a CSV with the "
            "time at which each epoch starts, or a training log with --epochs-pattern"
        )
    return KnownEpochs.of_spans(Path(file).name or file, spans)


def checked(known: KnownEpochs, own: Detection, time: NDArray[np.float64]) -> tuple[Detection, str]:
    """The known epochs as a detection in a trace of these times, and what its telemetry, which shows ``own``, says of them."""
    if not known.seconds:
        return _named(known.kind, own)
    reach = float(np.median(np.diff(time))) if time.size > 1 else 0.0
    spans = [span for span in known.spans if time[0] - reach <= span[0] and span[1] <= time[-1] + reach]
    period = KnownEpochs.of_spans(known.origin, spans).seconds if spans else known.seconds
    found = [cycle.period_s for cycle in own.cycles] or ([] if own.period_s is None else [own.period_s])
    nearest = min(found, key=lambda seconds: abs(math.log(seconds / period)), default=None)
    if nearest is None:
        says = "telemetry shows nothing that repeats"
    elif abs(math.log(nearest / period)) <= SAME:
        says = f"telemetry agrees within {max(0.1, 100 * abs(nearest / period - 1)):.1f} %"
    else:
        says = f"telemetry shows {length(nearest)} instead"
    where = "" if spans or not known.spans else ", whose marks are not within the trace's time: only their length counts"
    cycle = Cycle("epoch", period, 1.0, f"known from {known.origin}", None, None, 1.0)
    alike = [each for each in own.cycles if abs(math.log(each.period_s / period)) <= SAME]
    if alike:
        cycle = replace(alike[0], kind="epoch", period_s=period, confidence=1.0, evidence=cycle.evidence, kind_confidence=1.0)
    others = [replace(each, kind="unknown") if each.kind == "epoch" else each for each in own.cycles if each not in alike]
    epochs = tuple(Epoch(start, end, 1.0) for start, end in spans)
    detection = Detection(
        "epochs",
        period,
        None,
        epochs,
        1.0,
        "known",
        "wall",
        samples_per_epoch=period / reach if reach else None,
        cycles=tuple(sorted([*others, cycle], key=lambda each: each.period_s)),
    )
    return detection, f"epochs of {length(period)} are known from {known.origin}{where}; {says}"


def _named(kind: Kind, own: Detection) -> tuple[Detection, str]:
    """What was found, with its cycle of this kind."""
    if own.cycle is None:
        return own, f"nothing was found that could be the {kind} of --cycle"
    cycle = replace(own.cycle, kind=kind, kind_confidence=1.0, k_open=(), evidence=f"stated (--cycle); {own.cycle.evidence}")
    cycles = tuple(cycle if each is own.cycle else each for each in own.cycles)
    return replace(own, cycles=cycles), f"the cycle of {length(cycle.period_s)} is taken for the {kind}, as stated"


def _spans(file: str, pattern: str | None) -> list[tuple[float, float]]:
    path = Path(file)
    if pattern is None:
        log, events = wandb_run.run_file(path), tensorboard_events.event_files(path)
        if log is not None or events:
            known = wandb_run.read_epochs(log) if log is not None else tensorboard_events.read_epochs(events, file)
            return [] if known is None else list(known.spans)
    if path.suffix == ".json":
        labels = read_labels(path)
        return list(zip(labels.epoch_starts, labels.epoch_ends, strict=True))
    text = read_text(file)
    return _of_table(read_table(text, file)[0] if pattern is None else _lines(text, pattern, file), file)


def _lines(text: str, pattern: str, name: str) -> pd.DataFrame:
    """The time in each line that the pattern is in, and the number in its group."""
    try:
        marks = re.compile(pattern)
    except re.error as error:
        raise InputError(
            f"--epochs-pattern {pattern!r} is no regular expression ({error}); for plain text put \\ before each of .()[]"
        ) from None
    found = [
        (time[0], re.search(r"\d+(?:\.\d+)?", (match[1] if marks.groups else None) or ""))
        for line in re.split(r"[\r\n]+", text)
        if (match := marks.search(line)) and (time := _TIME.search(line))
    ]
    if not found:
        raise InputError(f"no line of {name!r} has both the pattern and a time, such as 2026-01-31 23:59:59")
    times = [f"1970-01-01 {time}" if time[2] == ":" else time for time, _ in found]
    counted = {"epoch": [number and float(number[0]) for _, number in found]} if all(number for _, number in found) else {}
    return pd.DataFrame({"time": times, **counted})


def _of_table(table: pd.DataFrame, name: str) -> list[tuple[float, float]]:
    titles = {last_part(str(title).strip()): title for title in reversed(table.columns)}
    start, end = (next((titles[title] for title in names if title in titles), None) for names in (_STARTS, _ENDS))
    if start is None:
        raise InputError(
            f"{name!r} has no column of times; it has {', '.join(map(str, table.columns[:8]))}: name one 'start', or give "
            "--epochs-pattern for a training log"
        )
    starts = unix_seconds(table[start], str(start), name)[0].to_numpy()
    starts = starts + _DAY_S * np.concatenate([[0.0], np.cumsum(np.diff(starts) < -_DAY_S / 2)])  # times of day, over midnight
    if end is not None:
        ends = unix_seconds(table[end], str(end), name)[0].to_numpy()
        return [(float(first), float(last)) for first, last in zip(starts, ends, strict=True) if first < last]
    counted = pd.to_numeric(table[titles["epoch"]], errors="coerce") if "epoch" in titles else np.arange(len(starts))
    rows = pd.DataFrame({"time": starts, "value": counted}, dtype=float).dropna().sort_values("time")
    return epochs_of(list(rows.itertuples(index=False, name=None)))
