"""Errors of all predictors of occupancy, by the paper's protocols and with whole networks left out; parts `accuracy`,
`transformers` and `sizes` of docs/occupancy.md.

Labels are those of the table given; by default the one of modelled_table.py, of which no claim for hardware follows.
Networks of PyTorch learn for minutes per fit: what each says of each protocol is kept in benchmarks/results/occupancy_answers,
by the labels and features of all rows, and not computed again, so that several processes can share the work (`--model`) and
`--write` fills the page from what is there. After a change to a model `--anew` computes its answers again.

Run: python -m benchmarks.occupancy.modelled_table
     python -m benchmarks.occupancy.accuracy [--data FILE] [--model NAME]… [--write]
"""

import argparse
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.occupancy.evaluation import PROTOCOLS, Answers, cross_validate, figures, figures_by
from epochcast.analyzer.backends.occupancy.features import edge_features, node_features
from epochcast.analyzer.backends.occupancy.label_files import read_any
from epochcast.analyzer.backends.occupancy.labelled_samples import LabelledSamples, labelled_samples
from epochcast.analyzer.backends.occupancy.models import MODELS, make
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.evaluation import Split
from epochcast.regressor import load_catalog

from ..page import OCCUPANCY, markdown_table
from .modelled_table import RESULTS

ANSWERS = RESULTS.parent / "occupancy_answers"

SUBSET = 6
"""Configurations per network where groups of networks leave together."""
FOLDS = 3
"""Groups of ten networks."""
EPOCHS = 100
"""Of the paper's networks: the paper gives no number, and 50, the default, are few steps for a table of this size."""
QUICK = ("mean", "nearest", "boosting", "operator-mean")
"""Those that can be fitted once for each network left out."""
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
    parser.add_argument("--anew", action="store_true", help="do not take what is kept")
    parser.add_argument("--write", action="store_true", help="fill docs/occupancy.md")
    options = parser.parse_args()
    catalog = load_catalog()
    data = labelled_samples(read_any(options.data, catalog, None), catalog)
    key = _key(data)
    told = {name: _told(data, name, options.target, key, options.anew) for name in options.model or MODELS}
    parts = {
        "accuracy": list(_accuracy(data, told)),
        "transformers": [*_by_network(told, "transformers", "Table V"), "", *_by_network(told, "clip", "Table IV")],
        "sizes": list(_sizes(told)),
    }
    for part, lines in parts.items():
        print("\n".join(lines), "\n")
        if options.write:
            OCCUPANCY.fill(part, lines)


def _told(data: LabelledSamples, name: str, target: str, key: str, anew: bool) -> Mapping[str, Told]:
    """What a model says by protocol; those that it cannot answer are not there."""
    told = {}
    settings = {"seed": SEED} if name in QUICK else {"seed": SEED, "epochs": EPOCHS}
    for protocol, (rows, splits) in _asked(data, name).items():
        kept = ANSWERS / f"{target}-{key}-{protocol}-{name}.csv"
        if anew or not kept.exists():
            began = time.process_time()
            try:
                answers = cross_validate(rows, target, partial(make, name, **settings), splits)
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
        table = pd.read_csv(kept)
        own = Answers(table, *(table[column].to_numpy() for column in ("measured", "predicted", "test")), figures)
        told[protocol] = Told(own, float(table["seconds"].iloc[0]))
    return told


def _asked(data: LabelledSamples, name: str) -> dict[str, tuple[LabelledSamples, list[Split]]]:
    """Rows and fits by protocol; `groups` is `model` with several networks left out at once."""
    few = _subset(data)
    asked = {
        "groups": (few, PROTOCOLS["model"](few.points, FOLDS, SEED)),
        **{one: (data, PROTOCOLS[one](data.points, None, SEED)) for one in ("paper", "transformers", "clip")},
    }
    if name in QUICK:
        asked["model"] = data, PROTOCOLS["model"](data.points, None, SEED)
    return asked


def _subset(data: LabelledSamples) -> LabelledSamples:
    """The first few configurations of each network."""
    return data.only((data.points.groupby("network").cumcount() < SUBSET).to_numpy())


def _key(data: LabelledSamples) -> str:
    """Of the labels and of all that models see."""
    digest = hashlib.sha256(data.points.to_csv().encode())
    for sample in data.samples:
        digest.update(node_features(sample).tobytes() + sample.graph.edges.tobytes() + edge_features(sample).tobytes())
    return f"{digest.hexdigest()[:12]}-{SUBSET}-{FOLDS}-{EPOCHS}-{SEED}"


def _accuracy(data: LabelledSamples, told: Mapping[str, Mapping[str, Told]]) -> Iterator[str]:
    points, rows = data.points, []
    for name, by in told.items():
        groups, paper = by["groups"].answers, by["paper"].answers
        tests = paper.by_test()
        alone = by["model"].answers if "model" in by else None
        rows.append(
            (
                f"`{name}`",
                f"{alone.figures.mre:.1f} ± {alone.spread:.1f}" if alone else "",
                f"{groups.figures.mre:.1f} ± {groups.spread:.1f}",
                f"{groups.figures.median_ape:.1f}",
                f"{groups.figures.mse:.4f}",
                f"{tests['seen'].mre:.1f}",
                f"{tests['unseen'].mre:.1f}",
                f"{paper.figures.mre:.1f}",
                f"{by['groups'].seconds:.0f}",
            )
        )
    one = next(iter(told.values()))
    tests = one["paper"].answers.by_test()
    yield (
        f"Labels: **{data.labels}** ({', '.join(sorted(points['gpu'].unique()))}; {len(points)} rows of "
        f"{points['network'].nunique()} networks). One network left out: n = {len(points)}; {FOLDS} groups of ten left out: "
        f"n = {one['groups'].answers.figures.n}, {SUBSET} configurations of each. Section V: n = {tests['seen'].n} seen, "
        f"{tests['unseen'].n} unseen. ±: standard deviation over networks or groups."
    )
    yield ""
    header = ("one network left out: MRE %", "ten left out: MRE %", "median %", "MSE", "section V: seen MRE %", "unseen MRE %")
    yield from markdown_table(("", *header, "overall MRE %", "CPU s per fit (ten out)"), rows)


def _by_network(told: Mapping[str, Mapping[str, Told]], protocol: str, where: str) -> Iterator[str]:
    tables = {name: figures_by(by[protocol].answers)["network"] for name, by in told.items() if protocol in by}
    networks = list(next(iter(tables.values())))
    rows = [(f"`{name}`", *(f"{table[one].mre:.1f}" for one in networks)) for name, table in tables.items()]
    counts = next(iter(tables.values()))
    yield from markdown_table((f"{where}, MRE %", *(f"{one} ({counts[one].n})" for one in networks)), rows)


def _sizes(told: Mapping[str, Mapping[str, Told]]) -> Iterator[str]:
    """Fig. 5: rows of networks of which ten left together, by nodes and by edges."""
    for what in ("nodes", "edges"):
        tables = {name: figures_by(by["groups"].answers)[what] for name, by in told.items()}
        bins = list(next(iter(tables.values())))
        counts: Sequence[int] = [next(iter(tables.values()))[one].n for one in bins]
        rows = [(f"`{name}`", *(f"{table[one].mre:.1f}" for one in bins)) for name, table in tables.items()]
        header = [f"{one} (n = {count})" for one, count in zip(bins, counts, strict=True)]
        yield from markdown_table((f"{what}: MRE %", *header), rows)
        yield ""


if __name__ == "__main__":
    main()
