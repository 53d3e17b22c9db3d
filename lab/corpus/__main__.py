"""``python -m lab.corpus``: what a corpus covers, several as one, and what others logged brought into one."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from epochcast.analyzer.cli import terminal
from epochcast.analyzer.cli.group import Group
from epochcast.analyzer.cli.shared_options import gpus_option, json_option
from epochcast.analyzer.corpus.logged_profile import ImportOptions
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.tables import interval_text, seconds_text, table
from epochcast.analyzer.words import count
from epochcast.regressor import load_catalog
from lab import commands
from lab.corpus.coverage import Coverage, DeviceCoverage, Missing, WorkloadCoverage, coverage
from lab.corpus.imported import import_run
from lab.corpus.merge import merge as merge_corpora
from lab.corpus.run import DETECTED, Run, union
from lab.corpus.table import read_runs

_CORPORA = click.argument("corpora", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="CORPUS...")

_NEW = {"P2": "new workloads", "P3": "new models", "P4": "new GPUs"}
_LISTED = 10


@click.group(cls=Group)
def corpus() -> None:
    """Show what your measurements cover, merge corpora, and import logged runs."""


@corpus.command(short_help="Show what corpora cover and what is missing to train on them.")
@_CORPORA
@gpus_option
@json_option
def report(corpora: tuple[Path, ...], gpus: Path | None, as_json: bool) -> int:
    """Show what corpora cover together, and which workloads on which GPUs are missing for training, the shortest first.

    Exits 1 if there is nothing to learn yet because no workload was measured on two GPUs.

    \b
    Example: python -m lab.corpus report corpus-t4/ corpus-l4/
    """
    covered = coverage(union(run for path in corpora for run in read_runs(path)), load_catalog(gpus))
    terminal.say(json.dumps(asdict(covered), indent=2) if as_json else _coverage_text(covered), as_is=as_json)
    return 0 if covered.pairs else 1


@corpus.command(short_help="Merge several corpora into one.")
@_CORPORA
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Corpus folder to write to.")
@json_option
def merge(corpora: tuple[Path, ...], out: Path, as_json: bool) -> int:
    """Merge several corpora into one: each recording once, with its trace and labels. Existing recordings stay.

    \b
    Example: python -m lab.corpus merge corpus-t4/ corpus-l4/ --out corpus
    """
    merged = merge_corpora(corpora, out)
    if as_json:
        click.echo(json.dumps(asdict(merged)))
        return 0
    without = f", {merged.without_trace} of them without a trace" if merged.without_trace else ""
    terminal.say(f"{out}: {merged.runs} runs{without}, {merged.added} of them new")
    return 0


@corpus.command(name="import", short_help="Import wandb or TensorBoard runs into a corpus.")
@click.argument("runs", type=click.Path(exists=True, path_type=Path), nargs=-1, required=True, metavar="RUN...")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Corpus folder to write to.")
@click.option(
    "--trace",
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help="Telemetry recorded during the run: needed for TensorBoard, replaces wandb's own.",
)
@click.option(
    "--workload", metavar="NAME", help="Name of the workload. [default: the project and a digest of the configuration]"
)
@click.option("--group", metavar="NAME", help="Family of the workload. [default: the configuration's network or model]")
@click.option("--gpu", metavar="NAME", help="GPU that the runs used, if they do not name it.")
@click.option(
    "--device", type=click.IntRange(min=0), metavar="N", help="Index of the GPU that the runs used, if several were busy."
)
@click.option(
    "--steps-per-epoch",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Steps in an epoch, if the history counts none. [default: the configuration's steps_per_epoch]",
)
@json_option
def import_(runs: tuple[Path, ...], out: Path, as_json: bool, **options: Any) -> int:
    """Import wandb runs (run folders or .wandb files, offline ones too) into a corpus, as rows to train on.

    A folder of TensorBoard event files becomes a row if --trace gives the telemetry recorded during that run.

    Epochs come from the run's history or its printed lines; otherwise they are detected. A run without epochs, or with
    several busy GPUs, is skipped, and the reason is printed.

    \b
    Example: python -m lab.corpus import wandb/run-* --out corpus
             python -m lab.corpus import logs/ --trace run.parquet \\
                 --workload resnet50 --out corpus
    """
    if options["trace"] is not None and len(runs) > 1:
        raise InputError(f"--trace is the telemetry of one run, but {len(runs)} runs were given; import them one at a time")
    catalog, added, left_out = load_catalog(), [], []
    for path in runs:
        try:
            added.append((path, import_run(path, out, catalog, ImportOptions(**options))))
        except InputError as error:
            left_out.append({"run": str(path), "why": str(error)})
    if not added:
        first = left_out[0]
        raise InputError(f"no run can be imported; {first['run']!r} because: {first['why']}")
    if as_json:
        click.echo(json.dumps({"imported": [_imported(path, run) for path, run in added], "left_out": left_out}, indent=2))
        return 0
    for path, run in added:
        terminal.say(f"{path}: {_run_text(run)}")
    for refused in left_out:
        terminal.note(f"{refused['run']} is left out: {refused['why']}")
    terminal.say(f"{out}: {count(len(added), 'run')} imported, {len(left_out)} left out")
    return 0


def _imported(path: Path, run: Run) -> dict[str, Any]:
    profile = run.profile
    figures = {key: getattr(profile, key) for key in ("gpu", "workload", "group", "epoch_s", "epoch_s_low", "epoch_s_high")}
    return {"run": str(path), **figures, "marks": run.marks, "trace": run.trace}


def _coverage_text(covered: Coverage) -> str:
    """Tables of devices and workloads, then what is paired, missing, left out, and can be evaluated."""
    names = [device.name for device in covered.devices]
    ran = f"{covered.paired} of {count(len(covered.workloads), 'workload')} ran on two or more GPUs"
    parts = [
        table(
            ("device", "runs", "workloads", "telemetry", "epoch", "busy"), [_device_row(device) for device in covered.devices]
        ),
        "",
        table(
            ("network", "batch", "image", "samples", "precision", *names),
            [_workload_row(workload, names) for workload in covered.workloads],
        ),
        "",
        f"{ran}: {count(covered.pairs, 'pair')} to learn from",
        *_missing_lines(covered.missing),
        *covered.left_out,
        *_protocol_lines(covered.protocols),
    ]
    return "\n".join(parts)


def _run_text(run: Run) -> str:
    """A run that was imported, in one line."""
    profile = run.profile
    how = "detected" if run.marks == DETECTED else f"from its {run.marks}"
    epochs = f"{count(profile.epochs, 'epoch')} of {seconds_text(profile.epoch_s or 0.0)}"
    return f"{epochs} on {profile.gpu} ({how}), workload {profile.workload}"


def _device_row(device: DeviceCoverage) -> tuple[str, ...]:
    tiers = ", ".join(name if len(device.metrics) == 1 else f"{name} {runs}" for name, runs in device.metrics.items())
    busy = "-" if device.busy is None else f"{100 * device.busy[0]:.0f} to {100 * device.busy[1]:.0f} %"
    return device.name, str(device.runs), str(device.workloads), tiers, interval_text(*device.epoch_s), busy


def _workload_row(workload: WorkloadCoverage, devices: list[str]) -> tuple[str, ...]:
    sizes = (workload.batch_size, workload.image_size, workload.samples, workload.precision)
    # Without sizes only the workload's own text identifies it.
    network = workload.workload if workload.network is None or workload.batch_size is None else workload.network
    counts = (str(workload.runs.get(device, "-")) for device in devices)
    return network, *("-" if size is None else str(size) for size in sizes), *counts


def _missing_lines(missing: tuple[Missing, ...]) -> list[str]:
    by_gpu: dict[str, list[Missing]] = {}
    for pair in missing:
        by_gpu.setdefault(pair.gpu, []).append(pair)
    lines = []
    for gpu, own in sorted(by_gpu.items()):
        listed = ", ".join(f"{pair.workload} ({seconds_text(pair.epoch_s)})" for pair in own[:_LISTED])
        more = f" and {count(len(own) - _LISTED, 'longer one')}" if len(own) > _LISTED else ""
        lines.append(f"missing on {gpu}, with the epoch time elsewhere: {listed}{more}")
    return lines


def _protocol_lines(protocols: Mapping[str, str | None]) -> list[str]:
    reasons = set(protocols.values())
    if len(reasons) == 1 and None not in reasons:
        return [f"accuracy on {', '.join(_NEW.values())} cannot be evaluated ({', '.join(protocols)}): {reasons.pop()}"]
    return [
        f"accuracy on {_NEW[name]} {'can be evaluated' if reason is None else 'cannot be evaluated'} ({name})"
        + ("" if reason is None else f": {reason}")
        for name, reason in protocols.items()
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    return commands.run(corpus, "lab.corpus", arguments)


if __name__ == "__main__":
    sys.exit(main())
