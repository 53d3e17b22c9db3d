"""``epochcast detect``."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from epochcast.analyzer.cli import terminal
from epochcast.analyzer.cli.shared_options import json_option, known_epochs_options
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.cycles import (
    REASONS,
    cycle_lines,
    idle_at,
    no_answer,
    open_text,
    second_job,
)
from epochcast.analyzer.traces.job_traces import APART, checked_epochs, detect_together, read_job, shows, with_known_epochs
from epochcast.analyzer.traces.logs.logged_run import KnownEpochs
from epochcast.analyzer.traces.trace import Trace, path_of
from epochcast.analyzer.words import clock as utc
from epochcast.analyzer.words import count, number
from epochcast.detector import METHODS, Detection, Epoch, JobDetection, Stretch
from epochcast.detector import detect as find_epochs
from epochcast.detector.confidence import SURE

_FOLLOW_S = 10.0  # the search of a long log takes a second or two


@click.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option(
    "--method",
    type=click.Choice(list(METHODS)),
    metavar="NAME",
    default="track",
    show_default=True,
    help=f"Detection method: {', '.join(METHODS)}.",
)
@click.option(
    "--luminol",
    type=click.Choice(["exact", "package"]),
    help="Luminol for the paper's method: our exact, fast version or the original package. [default: exact]",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the trace, its epochs and the method's scores (PNG, SVG, PDF).",
)
@click.option("--follow", is_flag=True, help="Answer again as epochs come to a log that is still being written.")
@known_epochs_options("epochs")
@json_option
def detect(
    traces: tuple[str, ...],
    method: str,
    luminol: str | None,
    plot: Path | None,
    as_json: bool,
    follow: bool,
    epochs: KnownEpochs | None,
) -> int:
    """Find the epochs of a job in its traces (Parquet or CSV; - reads CSV from standard input). Exits 1 if there are none.

    Several traces, a folder of traces, or the GPUs in one log count as one job: its answer comes first, then one line per
    GPU. Methods other than track search each GPU on its own. --plot then draws one file per GPU, NAME.gpuN.png.

    \b
    Example: epochcast detect run.parquet --plot run.png
             epochcast detect run.gpu0.parquet run.gpu1.parquet
             epochcast detect runs/
    """
    if luminol is not None and method != "paper":
        raise InputError(f"--luminol applies only to --method paper, not {method}; leave it out")
    parameters: dict[str, Any] = {} if luminol is None else {"implementation": luminol}
    seen = -1
    while True:
        named = with_known_epochs(read_job(traces), epochs)
        detected, notes = _detect(named, method, parameters)
        number = sum(len(gpu.epochs) for gpu in detected.gpus)
        if number != seen:
            _answer(detected, [trace for _, trace in named], notes, traces[0], plot, as_json=as_json)
        if not follow:
            answers = detected.gpus if detected.job is None else (detected.job,)
            return 1 if all(answer.verdict == "none" for answer in answers) else 0
        seen = number
        time.sleep(_FOLLOW_S)


def _detect(named: Sequence[tuple[str, Trace]], method: str, parameters: Mapping[str, Any]) -> tuple[JobDetection, list[str]]:
    """What is found, and a note on each thing that a reader should know."""
    read = [trace for _, trace in named]
    together = len(read) > 1 and method == "track"
    if together:
        detected = detect_together(named)
    else:
        each = [find_epochs(trace.time, trace.metrics(), method=method, **parameters) for trace in read]
        detected = JobDetection(None, tuple(each), {})
    detected, known = checked_epochs(detected, read)
    notes = list(dict.fromkeys(note for trace in read for note in trace.notes))
    return detected, [*notes, *([APART] if together and detected.job is None else []), *known, *_second_jobs(detected, read)]


def _answer(
    detected: JobDetection, read: Sequence[Trace], notes: list[str], name: str, plot: Path | None, *, as_json: bool
) -> None:
    several = len(read) > 1
    for note in notes:
        terminal.note(note)
    if plot is not None:
        for trace, detection in zip(read, detected.gpus, strict=True):
            _draw(trace, detection, path_of(trace, plot) if several else plot, trace.title if several else name)
    if as_json:
        click.echo(json.dumps(_json(detected, read, notes), indent=2))
    elif detected.job is not None:
        of_gpus = _of_gpus(detected.job, detected, read)
        terminal.say("\n".join([sentences(detected.job, read), f"each of the {len(read)} GPUs:", *of_gpus]))
    else:
        for trace, detection in zip(read, detected.gpus, strict=True):
            terminal.say(f"{trace.title}: " * several + sentences(detection, [trace]))


def _second_jobs(detected: JobDetection, read: Sequence[Trace]) -> list[str]:
    """A sentence where two jobs share all of the GPUs, else on each GPU that two share."""
    if detected.job is not None and (sentence := second_job(detected.job)) is not None:
        return [sentence]
    title = "{}: " if len(read) > 1 else ""
    several = zip(read, detected.gpus, strict=True)
    return [
        title.format(trace.title) + sentence for trace, detection in several if (sentence := second_job(detection)) is not None
    ]


def _draw(trace: Trace, detection: Detection, path: Path, title: str) -> None:
    from epochcast.analyzer.charts import detection_figure, save_figure

    save_figure(detection_figure(trace, detection, title=title), path)


def _json(detected: JobDetection, read: Sequence[Trace], notes: list[str]) -> dict[str, Any]:
    """One trace's answer; of several the job's, and each one's with how it differs."""
    from epochcast.analyzer.traces.detection_json import detection_json  # pydantic: longer to import than a short search

    of_job = None if detected.job is None else detection_json(detected.job, float(_earliest(read).time[0]))
    of_gpus = [detection_json(each, float(trace.time[0])) for each, trace in zip(detected.gpus, read, strict=True)]
    if len(read) == 1:
        return of_gpus[0]
    named = [
        {"label": trace.label, "gpu": trace.gpu, "uuid": trace.uuid, "odd": detected.odd.get(place), **answer}
        for place, (trace, answer) in enumerate(zip(read, of_gpus, strict=True))
    ]
    return {"job": of_job, "gpus": named, "notes": notes}


def _earliest(read: Sequence[Trace]) -> Trace:
    return min(read, key=lambda trace: float(trace.time[0]))


def _of_gpus(job: Detection, detected: JobDetection, read: Sequence[Trace]) -> list[str]:
    """A line on each GPU of the job; an odd one's says first how it differs."""
    lines = []
    for place, (trace, detection) in enumerate(zip(read, detected.gpus, strict=True)):
        if detection.verdict == "none":
            text = "no epochs found" if detection.reason is None else REASONS[detection.reason].partition(".")[0]
        elif detection.verdict == "steps":
            text = f"steps of {detection.step_s:.3f} s"
        else:
            unit = job.unit if shows(detection, job) else detection.unit
            text = f"{_number_of(detection, unit or 'epoch')}, period {detection.period_s:.3f} s"
        odd = detected.odd.get(place)
        lines.append(f"  {trace.title}: {text if odd is None else f'{odd} ({text})'}")
    return lines


def sentences(detection: Detection, read: Sequence[Trace]) -> str:
    """The answer for these traces as text; times count from the first sample, as in the plot."""
    origin = float(_earliest(read).time[0])
    how = f"method {detection.method}, {detection.clock} clock, confidence {detection.confidence:.2f}"
    samples = "" if detection.samples_per_epoch is None else f", {number(detection.samples_per_epoch)} samples per"
    about = cycle_lines(detection.cycles)
    known = [{name: values[np.isfinite(values)] for name, values in trace.metrics().items()} for trace in read]
    means = [{name: float(values.mean()) for name, values in each.items() if values.size} for each in known]
    idle = [idle_at(each) for each in means]
    if detection.verdict == "none" and idle[0] is not None and None not in idle:
        return f"no epochs found: the GPU is idle ({idle[0][0]} is {100 * idle[0][1]:.2g} % on average)"
    if detection.verdict == "none":
        return "\n".join([no_answer(detection) or f"no epochs found ({how})", *about, *_stretches(detection.stretches, origin)])
    unsure = (
        []
        if detection.confidence >= SURE
        else [f"confidence below {SURE}: too unsure for predict and recommend to give seconds"]
    )
    if detection.verdict == "steps":
        steps = f"{detection.unit}s of {detection.step_s:.3f} s, no epochs ({how}{samples and f'{samples} cycle'})"
        return "\n".join([steps, *unsure, *about])
    unit = detection.unit or "epoch"
    lines = [
        f"{_number_of(detection, unit)}{'' if detection.cycle is None else open_text(detection.cycle)}, "
        f"period {detection.period_s:.3f} s ({how}{samples and f'{samples} {unit}'})",
        *unsure,
        *about,
    ]
    if len(detection.stretches) > 1:
        lines += [
            "the period changes; this is the period of the longest stretch:",
            *_stretches(detection.stretches, origin, unit),
        ]
    return "\n".join([*lines, *_epochs(detection.epochs, origin)])


def _number_of(detection: Detection, unit: str) -> str:
    """``12 epochs``; ``epochs`` where only their length is known."""
    known_length = detection.method == "known" and not detection.epochs
    return f"{unit}s" if known_length else count(len(detection.epochs), unit)


def _epochs(epochs: Sequence[Epoch], origin: float) -> list[str]:
    lengths, starts = [epoch.end - epoch.start for epoch in epochs], [epoch.start - origin for epoch in epochs]
    digits = _digits(lengths)
    start, length = _width(starts, digits), _width(lengths, digits)
    return [
        f"  {index:3d}  at {at:{start}.{digits}f} s ({utc(epoch.start, 3 if digits == 3 else 1)})  "
        f"length {seconds:{length}.{digits}f} s  confidence {epoch.confidence:.2f}"
        for index, (epoch, at, seconds) in enumerate(zip(epochs, starts, lengths, strict=True), start=1)
    ]


def _stretches(stretches: Sequence[Stretch], origin: float, unit: str = "epoch") -> list[str]:
    digits = _digits([stretch.period_s for stretch in stretches])
    start, end = (_width([getattr(each, name) - origin for each in stretches], digits) for name in ("start", "end"))
    period, many = _width([each.period_s for each in stretches], 3), _width([each.epochs for each in stretches], 0)
    return [
        f"  stretch {index}  from {each.start - origin:{start}.{digits}f} s ({utc(each.start, 3 if digits == 3 else 1)})  "
        f"to {each.end - origin:{end}.{digits}f} s  period {each.period_s:{period}.3f} s"
        f"  {unit}s {each.epochs:{many}d}  confidence {each.confidence:.2f}"
        for index, each in enumerate(stretches, start=1)
    ]


def _digits(lengths: Sequence[float]) -> int:
    """Decimals of seconds: milliseconds only where something is shorter than a second."""
    return 3 if min(lengths, default=1.0) < 1 else 2


def _width(values: Sequence[float], digits: int) -> int:
    """Columns of the longest."""
    return max((len(f"{value:.{digits}f}") for value in values), default=0)
