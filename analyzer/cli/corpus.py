"""``epochcast corpus``: what a corpus covers, and several as one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from ...regressor import load_catalog
from ..corpus import read_runs
from ..corpus.coverage import coverage
from ..corpus.merge import merge as merge_corpora
from ..corpus.selection import union
from .corpus_text import coverage_text

_CORPORA = click.argument("corpora", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="CORPUS...")


@click.group()
def corpus() -> None:
    """Look at what campaigns have measured, and bring several corpora together."""


@corpus.command()
@_CORPORA
@click.option("--gpus", type=click.Path(path_type=Path), metavar="FILE", help="A TOML file with GPUs of your own.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def report(corpora: tuple[Path, ...], gpus: Path | None, as_json: bool) -> int:
    """Say what corpora cover together, and what is missing to train on them: which workload on which GPU, the shortest first.

    Exits 1 if nothing can be learnt from them yet: no workload was measured on two GPUs.

    \b
    Example: epochcast corpus report corpus-t4/ corpus-l4/
    """
    found = coverage(union(run for path in corpora for run in read_runs(path)), load_catalog(gpus))
    click.echo(json.dumps(found.to_json(), indent=2) if as_json else coverage_text(found))
    return 0 if found.pairs else 1


@corpus.command()
@_CORPORA
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="The corpus to bring them into.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def merge(corpora: tuple[Path, ...], out: Path, as_json: bool) -> int:
    """Bring several corpora into one, each recording once, with its trace and labels. What is in it already stays.

    \b
    Example: epochcast corpus merge corpus-t4/ corpus-l4/ --out corpus
    """
    merged = merge_corpora(corpora, out)
    if as_json:
        click.echo(json.dumps(asdict(merged)))
        return 0
    without = f", {merged.without_trace} of them without a trace" if merged.without_trace else ""
    click.echo(f"{out}: {merged.runs} runs{without}, {merged.added} of them new")
    return 0
