"""``epochcast split``."""

from __future__ import annotations

from pathlib import Path

import click

from epochcast.analyzer.cli import terminal
from epochcast.analyzer.traces.trace import path_of, read_traces, write_trace


@click.command()
@click.argument("log")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Name of the traces (.parquet or .csv). [default: LOG.parquet]",
)
def split(log: str, out: Path | None) -> int:
    """Split a log into one trace per GPU: NAME.gpuN.parquet, or NAME.parquet for a log of one GPU.

    Use it where one file per GPU is needed: `epochcast profile`, `epochcast fleet analyze`, a corpus.

    \b
    Example: epochcast split smi.csv --out run.parquet
    """
    traces = read_traces(log)
    for note in dict.fromkeys(note for trace in traces for note in trace.notes):
        terminal.note(note)
    path = out or Path("trace" if log == "-" else Path(log).absolute().name.removesuffix(".gz")).with_suffix(".parquet")
    for trace in traces:
        click.echo(write_trace(trace, path_of(trace, path) if len(traces) > 1 else path))
    return 0
