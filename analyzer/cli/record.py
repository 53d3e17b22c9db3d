"""``epochcast record``."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from pathlib import Path

import click

from epochcast.analyzer.cli import terminal
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.recording.record import NoSampleError
from epochcast.analyzer.traces.recording.record import record as run_recorded

_AT_ONCE_S = 5.0  # no training ends so soon, least of all with an error


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Trace to write (.parquet or .csv). [default: trace-TIME.parquet]",
)
@click.option("--source", metavar="NAME", help="Source to read: nvml or host. [default: the best that works]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; COMMAND's own output goes to stderr.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def record(out: Path | None, source: str | None, as_json: bool, command: tuple[str, ...]) -> int:
    """Run COMMAND while an agent samples this node and COMMAND's processes at 10 Hz, and write a trace.

    Without a GPU, the trace holds what the machine and COMMAND's processes used. With one GPU it holds that GPU; with several,
    each GPU has a file, NAME.gpuN.parquet. The machine and the processes are then in NAME.host.parquet. An epochcast-agent that
    already runs on this node reads the GPUs; if there is none, one is started for as long as COMMAND runs. Exits with COMMAND's
    own status, or with 1 if that is 0 but nothing was sampled.

    If the clock is set back during the recording, the trace's times continue from where they were.

    While COMMAND runs, the samples are in NAME.gpuN.recording.csv and NAME.host.recording.csv, which are also traces. These
    files remain if the recording is killed or the disk is full.

    \b
    Example: epochcast record --out run.parquet -- python train.py --epochs 5
    """
    if not command:
        raise InputError("record needs the command that trains: epochcast record --out run.parquet -- python train.py")
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
        if result.returncode and result.lasted_s < _AT_ONCE_S:
            terminal.note(
                f"{command[0]} ended with status {result.returncode} after {result.lasted_s:.1f} s, so the trace shows no "
                "training: mend the command, and record again"
            )
        if result.problem is not None:
            terminal.note(f"{result.problem}")
    return result.returncode
