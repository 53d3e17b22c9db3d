"""``python -m lab.campaign``: run a list of trainings and fill a corpus with them."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import click

from epochcast.analyzer.cli import progress, terminal
from epochcast.analyzer.cli.group import Group
from epochcast.analyzer.cli.quantities import Duration
from epochcast.analyzer.cli.shared_options import json_option
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.tables import seconds_text, table
from lab import commands
from lab.campaign.overhead import MeasuredOverhead, read_overheads
from lab.campaign.plan import read_plan, shipped_plans
from lab.campaign.runner import Result, run_campaign


@click.group(cls=Group)
def campaign() -> None:
    """Train and record a list of workloads on this machine, to fill a corpus."""


@campaign.command(short_help="Run the workloads of a plan that a corpus still lacks.")
@click.argument("plan")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="CORPUS", help="Corpus folder to fill. [default: the plan's name]"
)
@click.option("--device", metavar="NAME", help="Device to train on: cpu or cuda:N. [default: the first GPU, else the CPU]")
@click.option(
    "--time-budget",
    type=Duration("seconds"),
    help="Start no run that would end later than this: seconds, or 90m, 2h. [default: the plan's]",
)
@click.option("--source", metavar="NAME", help="Source that the agent reads: nvml, dcgm or host. [default: the best available]")
@click.option("--retry-failed", is_flag=True, help="Retry runs that failed in an earlier campaign.")
@json_option
def run(
    plan: str,
    out: Path | None,
    device: str | None,
    time_budget: float | None,
    source: str | None,
    retry_failed: bool,
    as_json: bool,
) -> int:
    """Run the workloads of PLAN that CORPUS still lacks. PLAN is a TOML file or built in (`python -m lab.campaign plans`).

    Each workload trains in its own process while an agent samples; its trace and true epochs become a row of the
    corpus. If a run fails, CORPUS/failures says why and the others continue. After Ctrl-C, a full disk or the end of the time
    budget, run the same command again to continue. Exits 1 if a run failed or did not start.

    \b
    Example: python -m lab.campaign run ten-minutes-gpu --out my-a10g
             python -m lab.campaign run plan.toml --device cuda:1 --time-budget 1h
    """
    began = time.monotonic()
    if time_budget is not None and not time_budget > 0:
        raise InputError(f"--time-budget is {time_budget:g}; give seconds above 0")
    read = read_plan(plan)
    corpus = out or Path(Path(plan).stem)
    try:
        trained_on, results = run_campaign(
            read,
            corpus,
            device=device,
            source=source,
            time_budget_s=time_budget,
            retry_failed=retry_failed,
            progress=progress.show,
        )
    except SystemExit:  # Ctrl-C, SIGTERM
        progress.clear()
        terminal.note(f"stopped; finished runs are kept in {corpus}; run the same command again to continue")
        raise
    finally:
        progress.clear()
    names = {result.run for result in results}
    overheads = [entry for entry in read_overheads(corpus) if entry.run in names]
    if as_json:
        answer = {
            "runs": [asdict(result) for result in results],
            "overhead": [asdict(entry) for entry in overheads],
            "corpus": str(corpus),
            "device": trained_on.name,
            "seconds": round(time.monotonic() - began, 1),
        }
        click.echo(json.dumps(answer, indent=2))
    else:
        terminal.say(f"{trained_on.name}, {time.monotonic() - began:.0f} s\n")
        terminal.say(_text(results, overheads))
        terminal.say(f"\ncorpus: {corpus}")
    return 1 if any(result.status in ("failed", "not reached") for result in results) else 0


@campaign.command()
@click.option("--json", "as_json", is_flag=True, help="Print the plans as JSON.")
def plans(as_json: bool) -> int:
    """List the built-in plans.

    \b
    Example: python -m lab.campaign plans
    """
    shipped = shipped_plans()
    if as_json:
        click.echo(json.dumps([{"plan": name, "about": about} for name, about in shipped.items()], indent=2))
    else:
        terminal.say(table(("plan", "about"), list(shipped.items()), prose=True))
    return 0


def _text(results: list[Result], overheads: list[MeasuredOverhead]) -> str:
    rows = [
        (
            result.run,
            result.status,
            "-" if result.epochs is None else str(result.epochs),
            seconds_text(result.epoch_s),
            seconds_text(result.seconds),
            result.reason or "",
        )
        for result in results
    ]
    text = table(("run", "status", "epochs", "epoch", "whole run", ""), rows, prose=True)
    if overheads:
        costs = [
            (entry.workload, f"{entry.overhead:+.1%}", f"{entry.low:+.1%} to {entry.high:+.1%}", str(len(entry.with_s)))
            for entry in overheads
        ]
        text += "\n\n" + table(("what sampling cost", "overhead", "90 % interval", "pairs of blocks"), costs)
    return text


def main(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    return commands.run(campaign, "lab.campaign", arguments)


if __name__ == "__main__":
    sys.exit(main())
