"""``epochcast record``."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from pathlib import Path

import click

from ..record import NoSampleError
from ..record import record as run_recorded
from . import terminal


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--out", type=click.Path(path_type=Path), help="The trace to write (.parquet or .csv). [default: trace-TIME.parquet]"
)
@click.option("--source", help="Read this source (nvml, host) rather than the best that works here.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; the command's own output goes to stderr.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def record(out: Path | None, source: str | None, as_json: bool, command: tuple[str, ...]) -> int:
    """Run COMMAND while an agent samples this node and COMMAND's processes at 10 Hz, and write a trace.

    Without a GPU the trace holds what the machine and COMMAND's processes used. With one it is the GPU's, with several there is
    one file each, NAME.gpuN.parquet, and the machine and the processes are in NAME.host.parquet. GPUs are read by the
    epochcast-agent that listens on this node, or else by one that runs as long as COMMAND. Exits with COMMAND's own
    status, or with 1 where that is 0 and there is no sample.

    Until the end the samples are in NAME.gpuN.recording.csv and NAME.host.recording.csv, traces too. They are what a kill
    leaves, and stay where the disk has no room for the final files.

    \b
    Example: epochcast record --out run.parquet -- python train.py --epochs 5
    """
    path = out or Path(time.strftime("trace-%Y%m%d-%H%M%S.parquet"))
    try:
        result = run_recorded(command, path, source=source, stdout=sys.stderr.fileno() if as_json else None)
    except NoSampleError as error:
        terminal.note(str(error))
        return error.returncode or 1
    names = [str(name) for name in result.traces]
    if as_json:
        click.echo(
            json.dumps({"trace": names[0] if len(names) == 1 else names, "samples": result.samples, "missed": result.missed})
        )
    with suppress(OSError):  # the disk that is full may hold our stderr as well; the status is the command's all the same
        if not as_json:
            terminal.say(f"{', '.join(names) or 'no file'}: {result.samples} samples, {result.missed} missed ticks", err=True)
        if result.problem is not None:
            terminal.note(f"{result.problem}")
    return result.returncode
