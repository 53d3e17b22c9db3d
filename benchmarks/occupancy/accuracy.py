"""Errors of all predictors of occupancy, by the paper's protocols and with whole networks left out; parts `accuracy`,
`transformers` and `sizes` of docs/occupancy.md.

Labels are those of the table given; by default the one of modelled_table.py, of which no claim for hardware follows.
Networks of PyTorch learn for minutes per fit: what each says of each protocol is kept in benchmarks/results/occupancy_answers
(by the table, our code and the seed) and not computed again, so that several processes can share the work (`--model`), and
`--write` fills the page from what is there.

Run: python benchmarks/occupancy/modelled_table.py
     python benchmarks/occupancy/accuracy.py [--data FILE] [--model NAME]… [--write]
"""

import argparse
import hashlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
from modelled_table import RESULTS

sys.path.append(str(Path(__file__).parents[1]))
from docs_page import OCCUPANCY, markdown_table

from epochcast.analyzer.backends.occupancy.evaluation.answers import Answers
from epochcast.analyzer.backends.occupancy.evaluation.cross_validation import cross_validate
from epochcast.analyzer.backends.occupancy.evaluation.splits import PROTOCOLS
from epochcast.analyzer.backends.occupancy.label_files import read_any
from epochcast.analyzer.backends.occupancy.labelled_samples import LabelledSamples, labelled_samples
from epochcast.analyzer.backends.occupancy.models import MODELS, make
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

ANSWERS = RESULTS.parent / "occupancy_answers"
PACKAGE = Path(__file__).parents[2] / "analyzer/backends/occupancy"

SUBSET = 4
"""Configurations per network that the slow networks of the headline are fitted and tested on; all others see these rows too."""
FOLDS = 6
"""Groups of five networks that leave together in the headline."""
SEED = 0


@dataclass(frozen=True)
class Told:
    """What a model answered, and the CPU seconds of one fit."""

    answers: Answers
    seconds: float


def main() -> None:
    """Compute what is not there yet and print the tables; --write puts them into docs/occupancy.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=RESULTS, help="labels [default: %(default)s]")
    parser.add_argument("--target", default="mean", help="mean, time_mean or max [default: %(default)s]")
    parser.add_argument("--model", action="append", choices=list(MODELS), help="only these (repeatable)")
    parser.add_argument("--write", action="store_true", help="fill docs/occupancy.md")
    options = parser.parse_args()
    data = labelled_samples(read_any(options.data), load_catalog())
    told = {name: _told(data, name, options.target, options.data) for name in options.model or MODELS}
    parts = {
        "accuracy": list(_accuracy(data, told)),
        "transformers": [*_by_network(told, "transformers", "Table V"), "", *_by_network(told, "clip", "Table IV")],
        "sizes": list(_sizes(told)),
    }
    for part, lines in parts.items():
        print("\n".join(lines), "\n")
        if options.write:
            OCCUPANCY.fill(part, lines)


def _told(data: LabelledSamples, name: str, target: str, source: Path) -> Mapping[str, Told]:
    """What a model says by protocol; those that it cannot answer are not there."""
    told = {}
    for protocol in PROTOCOLS:
        rows = _subset(data) if protocol == "model" else data
        splits = PROTOCOLS[protocol](rows.points, FOLDS if protocol == "model" else None, SEED)
        kept = ANSWERS / f"{_key(source, target)}-{protocol}-{name}.csv"
        if not kept.exists():
            began = time.process_time()
            try:
                answers = cross_validate(rows, target, partial(make, name, seed=SEED), splits)
            except InputError as error:
                print(f"{name}, {protocol}: {error}")
                continue
            seconds = (time.process_time() - began) / len(splits)
            table = answers.points.assign(
                measured=answers.measured, predicted=answers.predicted, test=answers.tests, seconds=seconds
            )
            kept.parent.mkdir(parents=True, exist_ok=True)
            table.to_csv(kept, index=False)
            print(f"{name}, {protocol}: MRE {answers.figures.mre:.1f} %, {seconds:.0f} CPU s per fit", flush=True)
        table = pd.read_csv(kept, keep_default_na=True)
        own = Answers(table, *(table[column].to_numpy() for column in ("measured", "predicted", "test")))
        told[protocol] = Told(own, float(table["seconds"].iloc[0]))
    return told


def _subset(data: LabelledSamples) -> LabelledSamples:
    """The first few configurations of each network."""
    return data.only((data.points.groupby("network").cumcount() < SUBSET).to_numpy())


def _key(source: Path, target: str) -> str:
    digest = hashlib.sha256(source.read_bytes())
    for folder in ("graph", "models", "evaluation"):
        for path in sorted((PACKAGE / folder).glob("*.py")):
            digest.update(path.read_bytes())
    digest.update((PACKAGE / "features.py").read_bytes())
    return f"{target}-{digest.hexdigest()[:12]}-{SUBSET}-{FOLDS}-{SEED}"


def _accuracy(data: LabelledSamples, told: Mapping[str, Mapping[str, Told]]) -> Iterator[str]:
    points, rows = data.points, []
    for name, by in told.items():
        headline, paper = by["model"].answers, by["paper"].answers.by_test()
        rows.append(
            (
                f"`{name}`",
                f"{headline.figures.mre:.1f}",
                f"{headline.figures.median_ape:.1f}",
                f"{headline.figures.mse:.4f}",
                f"{headline.spread:.1f}",
                f"{paper['seen'].mre:.1f}",
                f"{paper['unseen'].mre:.1f}",
                f"{by['paper'].answers.figures.mre:.1f}",
                f"{by['model'].seconds:.0f}",
            )
        )
    one = next(iter(told.values()))
    seen = one["paper"].answers.by_test()
    yield (
        f"Labels: **{data.labels}** ({', '.join(sorted(points['gpu'].unique()))}; {len(points)} rows of "
        f"{points['network'].nunique()} networks). Networks left out: n = {one['model'].answers.figures.n}, {SUBSET} "
        f"configurations of each network, {FOLDS} groups of networks. Section V: n = {seen['seen'].n} seen, "
        f"{seen['unseen'].n} unseen."
    )
    yield ""
    header = (
        "networks left out: MRE %",
        "median %",
        "MSE",
        "sd of groups",
        "section V: seen MRE %",
        "unseen MRE %",
        "overall MRE %",
    )
    yield from markdown_table(("", *header, "CPU s per fit"), rows)


def _by_network(told: Mapping[str, Mapping[str, Told]], protocol: str, where: str) -> Iterator[str]:
    tables = {name: by[protocol].answers.by()["network"] for name, by in told.items() if protocol in by}
    networks = list(next(iter(tables.values())))
    rows = [(f"`{name}`", *(f"{table[one].mre:.1f}" for one in networks)) for name, table in tables.items()]
    counts = next(iter(tables.values()))
    yield from markdown_table((f"{where}, MRE %", *(f"{one} ({counts[one].n})" for one in networks)), rows)


def _sizes(told: Mapping[str, Mapping[str, Told]]) -> Iterator[str]:
    """Fig. 5: the headline's rows by nodes and by edges."""
    for what in ("nodes", "edges"):
        tables = {name: by["model"].answers.by()[what] for name, by in told.items()}
        bins = list(next(iter(tables.values())))
        counts: Sequence[int] = [next(iter(tables.values()))[one].n for one in bins]
        rows = [(f"`{name}`", *(f"{table[one].mre:.1f}" for one in bins)) for name, table in tables.items()]
        header = [f"{one} (n = {count})" for one, count in zip(bins, counts, strict=True)]
        yield from markdown_table((f"{what}: MRE %", *header), rows)
        yield ""


if __name__ == "__main__":
    main()
