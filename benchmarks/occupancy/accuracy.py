"""Errors of all predictors of occupancy, by the paper's protocols and with whole networks left out; parts `accuracy`,
`transformers` and `sizes` of docs/occupancy.md.

Labels are those of the table given; by default the one of modelled_table.py, of which no claim for hardware follows.
Networks of PyTorch learn for minutes per fit: what was answered is kept in benchmarks/results, so that several processes can
share the work (`--model`) and `--write` fills the page from what is there. Remove that folder after a change to a model.

Run: python -m benchmarks.occupancy.modelled_table
     python -m benchmarks.occupancy.accuracy [--data FILE] [--model NAME]… [--write]
"""

import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from joblib import Memory

from epochcast.analyzer.backends.occupancy.evaluation import PROTOCOLS, Answers, cross_validate, figures_by
from epochcast.analyzer.backends.occupancy.label_files import read_any
from epochcast.analyzer.backends.occupancy.labelled_samples import LabelledSamples, labelled_samples
from epochcast.analyzer.backends.occupancy.models import MODELS, make
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

from ..page import OCCUPANCY, markdown_table, options, publish
from .modelled_table import RESULTS

SUBSET = 6
"""Configurations per network where groups of networks leave together."""
FOLDS = 3
"""Groups of ten networks."""
EPOCHS = 100
"""Of the paper's networks: the paper gives no number, and 50, the default, are few steps for a table of this size."""
QUICK = ("mean", "nearest", "boosting", "operator-mean")
"""Those that can be fitted once for each network left out."""
SEED = 0

Table = Mapping[str, Mapping[str, tuple[Answers, float]]]
"""By model and protocol: the answers, and the CPU seconds of one fit; protocols that a model cannot answer are not there."""


@Memory(RESULTS.parent, verbose=0).cache
def answered(data: LabelledSamples, name: str, protocol: str) -> tuple[Answers, float]:
    """What a model says by a protocol, ``groups`` being ``model`` with several networks left out at once, and CPU s per fit."""
    if protocol == "groups":
        data = data.only((data.points.groupby("network").cumcount() < SUBSET).to_numpy())
    splits = PROTOCOLS["model" if protocol == "groups" else protocol](
        data.points, FOLDS if protocol == "groups" else None, SEED
    )
    settings = {"seed": SEED} if name in QUICK else {"seed": SEED, "epochs": EPOCHS}
    began = time.process_time()
    answers = cross_validate(data, "mean", partial(make, name, **settings), splits)
    return answers, (time.process_time() - began) / len(splits)


def answers_of(data: LabelledSamples, name: str) -> dict[str, tuple[Answers, float]]:
    """By protocol."""
    answers = {}
    for protocol in ("groups", "paper", "transformers", "clip", *(["model"] if name in QUICK else [])):
        try:
            answers[protocol] = answered(data, name, protocol)
        except InputError as error:
            print(f"{name}, {protocol}: {error}")
    return answers


def accuracy(data: LabelledSamples, table: Table) -> Iterator[str]:
    """Whole networks left out, and section V."""
    points, rows = data.points, []
    for name, by in table.items():
        (groups, seconds), (paper, _) = by["groups"], by["paper"]
        tests, alone = paper.by_test(), by["model"][0] if "model" in by else None
        rows.append(
            (
                f"`{name}`",
                f"{alone.figures.mre:.1f} ± {alone.spread:.1f}" if alone else "",
                f"{groups.figures.mre:.1f} ± {groups.spread:.1f}",
                f"{groups.figures.median_ape:.1f}",
                f"{groups.figures.mse:.4f}",
                *(f"{one.mre:.1f}" for one in (tests["seen"], tests["unseen"], paper.figures)),
                f"{seconds:.0f}",
            )
        )
    yield (
        f"Labels: **{data.labels}** ({', '.join(sorted(points['gpu'].unique()))}; {len(points)} rows of "
        f"{points['network'].nunique()} networks). One network left out: n = {len(points)}; {FOLDS} groups of ten left out: "
        f"n = {groups.figures.n}, {SUBSET} configurations of each. Section V: n = {tests['seen'].n} seen, "
        f"{tests['unseen'].n} unseen. ±: standard deviation over networks or groups."
    )
    yield ""
    header = ("one network left out: MRE %", "ten left out: MRE %", "median %", "MSE", "section V: seen MRE %", "unseen MRE %")
    yield from markdown_table(("", *header, "overall MRE %", "CPU s per fit (ten out)"), rows)


def by(table: Table, protocol: str, what: str, title: str) -> Iterator[str]:
    """Errors by what the tested rows differ in."""
    groups = {name: figures_by(of[protocol][0])[what] for name, of in table.items() if protocol in of}
    counts = {one: figures.n for one, figures in next(iter(groups.values())).items()}
    rows = [(f"`{name}`", *(f"{figures[one].mre:.1f}" for one in counts)) for name, figures in groups.items()]
    yield from markdown_table((f"{title}, MRE %", *(f"{one} (n = {count})" for one, count in counts.items())), rows)
    yield ""


def main() -> None:
    """Compute what is not there yet, and all parts."""
    parser = options(__doc__)
    parser.add_argument("--data", type=Path, default=RESULTS, help="labels [default: %(default)s]")
    parser.add_argument("--model", action="append", choices=list(MODELS), help="only these (repeatable)")
    chosen = parser.parse_args()
    data = labelled_samples(read_any(chosen.data, load_catalog(), None), load_catalog())
    table = {name: answers_of(data, name) for name in chosen.model or MODELS}
    parts = {
        "accuracy": accuracy(data, table),
        "transformers": [*by(table, "transformers", "network", "Table V"), *by(table, "clip", "network", "Table IV")],
        "sizes": [*by(table, "groups", "nodes", "nodes"), *by(table, "groups", "edges", "edges")],  # Fig. 5
    }
    for part, lines in parts.items():
        publish(OCCUPANCY, part, lines, write=chosen.write)


if __name__ == "__main__":
    main()
