"""Epochs that a user, a training log or the run itself knows: they win, and the telemetry checks them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import read_table, read_text
from epochcast.analyzer.traces.labels import read_labels
from epochcast.analyzer.traces.logs import tensorboard_events, wandb_run
from epochcast.analyzer.traces.logs.logged_run import LoggedRun, Rows, epochs_of, last_part
from epochcast.analyzer.traces.timestamps import unix_seconds
from epochcast.analyzer.words import length
from epochcast.detector import Cycle, Detection, Epoch
from epochcast.detector.methods.track.periods import SAME

_STARTS = ("start", "begin", "epoch_start", "_timestamp", "time", "timestamp", "wall time", "t", "date")
_ENDS = ("end", "epoch_end")
_TIME = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?|(?<![\d:])\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"|(?<![\d.])\d{10}(?:\.\d+)?(?![\d.])"
)


@dataclass(frozen=True)
class KnownEpochs:
    """Epochs of a job.

    Attributes:
        origin: where they come from, in a few words.
        seconds: of one.
        spans: start and end of each [unix s]; empty where only their length is known.
    """

    origin: str
    seconds: float
    spans: tuple[tuple[float, float], ...] = ()


def known_epochs(epoch_s: float | None = None, file: str | None = None, pattern: str | None = None) -> KnownEpochs | None:
    """The epochs by their length, or by a file: a wandb run, TensorBoard's events, a CSV or JSON of marks, or a training log.

    Args:
        epoch_s: seconds of one.
        file: with the marks.
        pattern: regular expression of the lines of a training log that mark an epoch; its group, if any, counts them.

    Raises:
        InputError: both are given, or the file marks less than two epochs.
    """
    if epoch_s is not None and file is not None:
        raise InputError("the epochs are given by their time and by a file; give one of --epoch-time and --epochs-from")
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
    return of_spans(Path(file).name or file, spans)


def of_spans(origin: str, spans: Sequence[tuple[float, float]]) -> KnownEpochs:
    """Epochs of these spans [unix s]."""
    return KnownEpochs(origin, float(np.median([end - start for start, end in spans])), tuple(spans))


def of_run(run: LoggedRun) -> KnownEpochs | None:
    """The epochs that a run itself counted; None where it did not."""
    steps = run.config.get("steps_per_epoch")
    epochs = run.epochs(steps if isinstance(steps, int | float) and steps > 0 else None)
    return None if epochs is None else of_spans(f"the run's {epochs.marks}", list(zip(epochs.starts, epochs.ends, strict=True)))


def checked(known: KnownEpochs, own: Detection, time: NDArray[np.float64]) -> tuple[Detection, str]:
    """The known epochs as a detection in a trace of these times, and what its telemetry, which shows ``own``, says of them."""
    reach = float(np.median(np.diff(time))) if time.size > 1 else 0.0
    spans = [span for span in known.spans if time[0] - reach <= span[0] and span[1] <= time[-1] + reach]
    period = of_spans(known.origin, spans).seconds if spans else known.seconds
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


def _spans(file: str, pattern: str | None) -> list[tuple[float, float]]:
    path = Path(file)
    run = None
    if pattern is None and (log := wandb_run.run_file(path)) is not None:
        run = wandb_run.read(log, telemetry=False)
    elif pattern is None and (events := tensorboard_events.event_files(path)):
        run = tensorboard_events.read(events, file)
    if run is not None:
        known = of_run(run)
        return [] if known is None else list(known.spans)
    if path.suffix == ".json":
        labels = read_labels(path)
        return list(zip(labels.epoch_starts, labels.epoch_ends, strict=True))
    text = read_text(file)
    return epochs_of(_marks(_lines(text, pattern), file)) if pattern is not None else _of_table(text, file)


def _lines(text: str, pattern: str) -> list[tuple[str, float | None]]:
    """The time in each line that the pattern is in, and the number in its group."""
    try:
        marks = re.compile(pattern)
    except re.error as error:
        raise InputError(
            f"--epochs-pattern {pattern!r} is no regular expression ({error}); for plain text put \\ before each of .()[]"
        ) from None
    found = []
    for line in re.split(r"[\r\n]+", text):
        if (match := marks.search(line)) and (time := _TIME.search(line)):
            number = re.search(r"\d+(?:\.\d+)?", match[1] or "") if marks.groups else None
            found.append((time[0], None if number is None else float(number[0])))
    return found


def _marks(found: Sequence[tuple[str, float | None]], name: str) -> Rows:
    if not found:
        raise InputError(f"no line of {name!r} has both the pattern and a time, such as 2026-01-31 23:59:59")
    texts = pd.Series([f"1970-01-01 {text}" if text[2] == ":" else text for text, _ in found])
    times = unix_seconds(texts, "time", name)[0].to_numpy()
    times = times + 86400.0 * np.concatenate([[0.0], np.cumsum(np.diff(times) < -43200)])  # times of day, over midnight
    numbers = [place if number is None else number for place, (_, number) in enumerate(found)]
    return list(zip(times.tolist(), map(float, numbers), strict=True))


def _of_table(text: str, name: str) -> list[tuple[float, float]]:
    table, _ = read_table(text, name)
    titles = {last_part(str(title).strip()): title for title in reversed(table.columns)}
    start = next((titles[title] for title in _STARTS if title in titles), None)
    if start is None:
        raise InputError(
            f"{name!r} has no column of times; it has {', '.join(map(str, table.columns[:8]))}: name one 'start', or give "
            "--epochs-pattern for a training log"
        )
    starts = unix_seconds(table[start], str(start), name)[0].to_numpy()
    end = next((titles[title] for title in _ENDS if title in titles), None)
    if end is not None:
        ends = unix_seconds(table[end], str(end), name)[0].to_numpy()
        return [(float(first), float(last)) for first, last in zip(starts, ends, strict=True) if first < last]
    counted = pd.to_numeric(table[titles["epoch"]], errors="coerce") if "epoch" in titles else pd.Series(range(len(starts)))
    rows = [
        (float(time), float(value)) for time, value in zip(starts, counted, strict=True) if np.isfinite([time, value]).all()
    ]
    return epochs_of(sorted(rows))
