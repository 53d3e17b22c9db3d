"""``epochcast demo``."""

from __future__ import annotations

from pathlib import Path

import click

from epochcast.analyzer.cli import progress, terminal


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("epochcast-demo"),
    show_default=True,
    metavar="DIR",
    help="Folder for the results.",
)
def demo(out: Path) -> int:
    """Try every step on this machine in about two minutes; no GPU needed.

    Trains a small network while an agent samples this machine, and finds its epochs. Then plays a (simulated) GPU trace and
    predicts the epoch time on every other GPU. Writes summary.json and report.html to DIR. Exits 1 if a part failed.

    \b
    Example: epochcast demo --out epochcast-demo
    """
    from epochcast.analyzer.demo.run import run_demo

    summary = run_demo(out, progress=progress.show)
    progress.clear()
    terminal.say(summary["headline"])
    for problem in summary["problems"]:
        terminal.note(problem)
    click.echo(f"report: {out / 'report.html'}   figures: {out / 'summary.json'}")
    return 1 if summary["problems"] else 0
