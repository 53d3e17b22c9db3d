"""``epochcast fleet``: thousands of GPUs at once."""

from __future__ import annotations

import importlib.util
import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from epochcast.analyzer.cli import progress, terminal
from epochcast.analyzer.cli.backend_command import options_of, question_of
from epochcast.analyzer.cli.group import Group
from epochcast.analyzer.cli.shared_options import gpus_option, json_option, prices_option
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.words import count, length
from epochcast.extras import how_to_install

if TYPE_CHECKING:
    from epochcast.analyzer.fleet.analyze import Progress
    from epochcast.analyzer.fleet.execution import Workers


def _moment(text: str) -> float:
    """Unix seconds, from a number or a date and time (UTC unless it says otherwise)."""
    wrong = click.BadParameter(f"{text!r} is not a time; give unix seconds, or a date and time as in 2026-11-01T00:00")
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise wrong from None
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(seconds):
        raise wrong
    return seconds


@click.group(cls=Group)
def fleet() -> None:
    """Analyse the traces of a whole fleet."""


@fleet.command(short_help="Analyse the traces of a whole fleet.")
@click.argument("path")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Folder for the results; a stopped run resumes there.",
)
@click.option("--processes", type=click.IntRange(1), metavar="N", help="Number of worker processes. [default: one per core]")
@click.option("--scheduler", metavar="ADDRESS", help="Scheduler of a Dask cluster to work on, e.g. tcp://host:8786.")
@click.option(
    "--from", "since", type=_moment, metavar="TIME", help="Ignore telemetry before this time: unix seconds or a date (UTC)."
)
@click.option(
    "--to", "until", type=_moment, metavar="TIME", help="Ignore telemetry from this time on: unix seconds or a date (UTC)."
)
@click.option(
    "--nodes",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="CSV with the column node, and any of instance, cloud, region.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML file with one [[prometheus]] section, as in the service's settings.",
)
@gpus_option
@prices_option
@json_option
def analyze(
    path: str,
    out: Path,
    processes: int | None,
    scheduler: str | None,
    since: float | None,
    until: float | None,
    nodes: Path | None,
    config: Path | None,
    gpus: Path | None,
    prices: Path | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Analyse the traces of a whole fleet: epochs, jobs, savings, stragglers, idle GPUs. Exits 1 if nothing could be analysed.

    PATH is a folder with traces at any depth (.parquet, .pq, .csv, .csv.gz), a prefix in an object store (s3://bucket/prefix,
    or any store that fsspec supports), or a Prometheus (http://host:9090, with --from and --to). Each trace's folder
    is its node. Run again with the same DIR to analyse only what is missing or has changed.

    DIR/report.html shows the results. The data are in gpus, spans, epochs, jobs and failures.parquet, the totals in
    summary.json.

    \b
    Example: epochcast fleet analyze traces --out findings
             epochcast fleet analyze s3://telemetry/2026-11 --out findings \\
                 --scheduler tcp://10.0.0.1:8786
             epochcast fleet analyze http://prometheus:9090 --out findings \\
                 --from 2026-11-01 --to 2026-11-02
    """
    needed = ("fsspec", "pebble") if scheduler is None else ("fsspec", "pebble", "distributed")
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        raise InputError(f"the fleet analysis is not installed here ({', '.join(missing)} missing); {how_to_install('fleet')}")
    if processes is not None and scheduler is not None:
        raise InputError("--processes and --scheduler exclude each other: the cluster sets the number of workers")
    if since is not None and until is not None and not since < until:
        raise InputError(f"--from {since:.0f} is not before --to {until:.0f}; give a time in between")
    if until is not None and until > time.time() and path.startswith(("http://", "https://")):
        # What comes until then would be missing from the answer, and a later run would take that over.
        raise InputError(f"--to {until:.0f} is in the future; give a time in the past")
    from epochcast.analyzer.fleet.analyze import analyze as analyze_fleet
    from epochcast.analyzer.fleet.execution import FleetError
    from epochcast.analyzer.fleet.findings_store import STORE
    from epochcast.analyzer.fleet.gpu_history import Looking
    from epochcast.analyzer.fleet.traces_of import read_places, traces_of
    from epochcast.analyzer.jobs.advisor import Advisor
    from epochcast.analyzer.live.state_file import alone_with

    advisor = Advisor.load(question_of(JobQuestion, given), gpus=gpus, prices=prices)
    looking = Looking(advisor.catalog, -math.inf if since is None else since, math.inf if until is None else until)
    places = read_places(nodes)
    name, traces = traces_of(path, looking, places, out=out, config=config)
    with alone_with(out / STORE):
        try:
            with _closed(_workers(scheduler, processes)) as workers:
                report = analyze_fleet(traces, out, looking, workers, advisor, what=name, show=_show)
        except FleetError as error:
            progress.clear()
            terminal.note(str(error))
            return 1
        except (KeyboardInterrupt, SystemExit):  # SIGINT, SIGTERM
            progress.clear()
            terminal.note("stopped; finished results are kept; run the same command again to continue")
            raise
        finally:
            progress.clear()
    run = report["run"]
    if as_json:
        click.echo(json.dumps({**report, "out": str(out), "report": str(out / "report.html")}, indent=2))
    else:
        over = f"; {run['taken_over']} reused from an earlier run" if run["taken_over"] else ""
        failed = f"{report['failed']} of {count(run['traces'], 'trace')} could not be analysed"
        terminal.say(f"{count(report['gpus'], 'GPU')}, {count(report['jobs'], 'job')}, {failed}{over}")
        terminal.say(f"report: {out / 'report.html'}")
    return 1 if report["failed"] >= run["traces"] else 0


analyze.params[-1:-1] = options_of(JobQuestion, "model", "market", "clouds", "regions")


@contextmanager
def _closed(workers: Workers) -> Iterator[Workers]:
    """Workers that are let go of at once, unless all went well."""
    at_once = True
    try:
        yield workers
        at_once = False
    finally:
        workers.close(at_once=at_once)


def _workers(scheduler: str | None, processes: int | None) -> Workers:
    if scheduler is not None:
        from epochcast.analyzer.fleet.dask_cluster import DaskCluster

        return DaskCluster(scheduler)
    from epochcast.analyzer.fleet.execution import LocalProcesses, cores

    return LocalProcesses(processes or cores())


def _show(state: Progress) -> None:
    done = state.taken_over + state.done
    if done == state.traces and state.jobs:
        progress.show(f"{count(state.jobs, 'job')} predicted")
        return
    if done == state.traces and state.searched:
        progress.show(f"{count(state.searched, 'job')} of several GPUs searched")
        return
    line = f"{done} of {state.traces} traces"
    if state.taken_over:
        line += f" ({state.taken_over} taken over)"
    if state.failed:
        line += f", {state.failed} failed"
    if state.done and state.seconds > 0:
        left = (state.traces - done) * state.seconds / state.done
        line += f", {state.gpu_s / 3600 / state.seconds:.2g} GPU-hours per second, about {length(left)} left"
    progress.show(line)
