"""``epochcast detect``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Literal

import click
import numpy as np

from ...detector import METHODS, REASONS, Detection
from ...detector import detect as find_epochs
from ..trace import read_trace


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

    \b
    Example: epochcast detect run.parquet --plot run.png
    """
    recorded = read_trace(trace)
    recorded.metrics(metrics)  # an unknown name is refused with the trace's own names
    found = find_epochs(recorded.time, recorded.metrics(), method=method, clock=clock, metric=metrics or None)
    if plot is not None:
        from ..figures import detection_figure, save_figure

        looked_at = replace(recorded, frame=recorded.frame[["time", *dict.fromkeys(metrics)]]) if metrics else recorded
        save_figure(detection_figure(looked_at, found, title=recorded.gpu or trace), plot)
    first = float(recorded.time[0])
    click.echo(json.dumps({**found.to_json(), "first_sample": first}, indent=2) if as_json else _text(found, first))
    return 1 if found.verdict == "none" else 0


def _text(found: Detection, first: float) -> str:
    """The answer in words; times count from the first sample, at ``first`` [unix s], as in the plot."""
    how = f"method {found.method}, {found.clock} clock, confidence {found.confidence:.2f}"
    if found.samples_per_epoch is not None:
        how += f", {found.samples_per_epoch:.3g} samples per {'step' if found.verdict == 'steps' else 'epoch'}"
    if found.verdict == "none":
        what = "no single epoch length" if found.stretches else "no epochs found"
        lines = [f"{what}{'' if found.reason is None else f': {REASONS[found.reason]}'} ({how})"]
    elif found.verdict == "steps":
        lines = [f"steps of {found.step_s:.3f} s, no epochs ({how})"]
    else:
        lines = [f"{len(found.epochs)} epochs, period {found.period_s:.3f} s ({how})"]
    if found.verdict == "none" or len(found.stretches) > 1:
        lines += [
            f"  {_at(stretch.start, first)} to {_at(stretch.end, first)}: {stretch.epochs} epochs of {stretch.period_s:.3f} s, "
            f"confidence {stretch.confidence:.2f}"
            for stretch in found.stretches
        ]
    lines += [
        f"  {number:3d}  start {_at(epoch.start, first)}  length {epoch.end - epoch.start:8.2f} s  "
        f"confidence {epoch.confidence:.2f}"
        for number, epoch in enumerate(found.epochs, start=1)
    ]
    return "\n".join(lines)


def _at(time: float, first: float) -> str:
    """Seconds since the first sample, and the time of day in UTC."""
    return f"{time - first:9.2f} s ({np.datetime_as_string(np.datetime64(round(time * 1000), 'ms')).replace('T', ' ')}Z)"
