"""``epochcast detect``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from ...detector import METHODS, Detection, Epoch, Stretch
from ...detector import detect as find_epochs
from ..reasons import no_answer
from ..trace import path_of, read_traces
from ..words import clock as utc
from ..words import count, number


@click.command()
@click.argument("trace")
@click.option("--method", type=click.Choice(list(METHODS)), default="track", show_default=True, help="Detection method.")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Use only this metric (repeatable).")
@click.option(
    "--clock",
    type=click.Choice(["auto", "wall", "work"]),
    default="auto",
    show_default=True,
    help="Find equal spans of time or of work done; auto: of work where the trace holds no GPU metric.",
)
@click.option(
    "--plot", type=click.Path(path_type=Path), help="Draw the trace, its epochs and the method's scores (.png, .svg, .pdf)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def detect(
    trace: str, method: str, metrics: tuple[str, ...], clock: Literal["auto", "wall", "work"], plot: Path | None, as_json: bool
) -> int:
    """Find the epochs of a trace (Parquet or CSV; - reads CSV from standard input). Exits 1 if there are none.

    Of a log with several GPUs each one's are found, and drawn in a file of its own, NAME.gpuN.png.

    \b
    Example: epochcast detect run.parquet --plot run.png
    """
    traces = read_traces(trace)
    for recorded in traces:
        recorded.metrics(metrics)  # an unknown name is refused with the trace's own names
    answers = [
        find_epochs(recorded.time, recorded.metrics(), method=method, clock=clock, metric=metrics or None)
        for recorded in traces
    ]
    notes, several = list(dict.fromkeys(note for recorded in traces for note in recorded.notes)), len(traces) > 1
    for note in notes:
        click.echo(f"epochcast: {note}", err=True)
    for recorded, found in zip(traces, answers, strict=True):
        if plot is not None:
            from ..figures import detection_figure, save_figure

            looked_at = replace(recorded, frame=recorded.frame[["time", *dict.fromkeys(metrics)]]) if metrics else recorded
            figure = detection_figure(looked_at, found, title=recorded.title if several else recorded.gpu or trace)
            save_figure(figure, path_of(recorded, plot) if several else plot)
        if not as_json:
            text = _sentences(found, float(recorded.time[0]))
            click.echo(f"{recorded.title}: {text}" if several else text)
    if as_json:
        shown = [{**found.to_json(), "first_sample": float(one.time[0])} for one, found in zip(traces, answers, strict=True)]
        named = [
            {"label": one.label, "gpu": one.gpu, "uuid": one.uuid, **each} for one, each in zip(traces, shown, strict=True)
        ]
        click.echo(json.dumps({"gpus": named, "notes": notes} if several else shown[0], indent=2))
    return 1 if all(found.verdict == "none" for found in answers) else 0


def _sentences(found: Detection, origin: float) -> str:
    """The answer as text; times count from ``origin`` [unix s], as in the plot."""
    how = f"method {found.method}, {found.clock} clock, confidence {found.confidence:.2f}"
    samples = "" if found.samples_per_epoch is None else f", {number(found.samples_per_epoch)} samples per"
    if found.verdict == "none":
        return "\n".join([no_answer(found) or f"no epochs found ({how})", *_stretches(found.stretches, origin)])
    if found.verdict == "steps":
        return f"steps of {found.step_s:.3f} s, no epochs ({how}{samples and f'{samples} cycle'})"
    lines = [f"{count(len(found.epochs), 'epoch')}, period {found.period_s:.3f} s ({how}{samples and f'{samples} epoch'})"]
    if len(found.stretches) > 1:
        lines += ["the period changes; this is the period of the longest stretch:", *_stretches(found.stretches, origin)]
    return "\n".join([*lines, *_epochs(found.epochs, origin)])


def _epochs(epochs: Sequence[Epoch], origin: float) -> list[str]:
    lengths = [epoch.end - epoch.start for epoch in epochs]
    digits, utc_digits = _digits(lengths)
    starts = _column([epoch.start - origin for epoch in epochs], digits)
    return [
        f"  {index:3d}  at {start} s ({utc(epoch.start, utc_digits)})  length {length} s  confidence {epoch.confidence:.2f}"
        for index, (epoch, start, length) in enumerate(zip(epochs, starts, _column(lengths, digits), strict=True), start=1)
    ]


def _stretches(stretches: Sequence[Stretch], origin: float) -> list[str]:
    periods = [stretch.period_s for stretch in stretches]
    digits, utc_digits = _digits(periods)
    starts = _column([stretch.start - origin for stretch in stretches], digits)
    ends = _column([stretch.end - origin for stretch in stretches], digits)
    counts = _column([stretch.epochs for stretch in stretches], 0)
    return [
        f"  stretch {index}  from {start} s ({utc(stretch.start, utc_digits)})  to {end} s  period {period} s"
        f"  epochs {epochs}  confidence {stretch.confidence:.2f}"
        for index, (stretch, start, end, period, epochs) in enumerate(
            zip(stretches, starts, ends, _column(periods, 3), counts, strict=True), start=1
        )
    ]


def _digits(lengths: Sequence[float]) -> tuple[int, int]:
    """Decimals of seconds and of the UTC time: milliseconds only where something is shorter than a second."""
    return (3, 3) if min(lengths, default=1.0) < 1 else (2, 1)


def _column(values: Sequence[float], digits: int) -> list[str]:
    texts = [f"{value:.{digits}f}" for value in values]
    width = max(map(len, texts), default=0)
    return [text.rjust(width) for text in texts]
