"""Show what corpora cover together, and which workloads on which GPUs are missing for training, the shortest first.

Exits 1 if there is nothing to learn yet because no workload was measured on two GPUs.

python -m lab.corpus report corpus-t4/ corpus-l4/
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from epochcast.regressor import Catalog, load_catalog
from epochcast.regressor.features import busy_share
from epochcast.regressor.pairs import Pair, make_pairs
from epochcast.regressor.protocols import splits
from lab.commands import REFUSALS, Nothing, gpus_option
from lab.corpus.run import Run, union
from lab.corpus.table import read_runs

PROTOCOLS = ("P2", "P3", "P4")
_SIZES = ["network", "image_size", "batch_size", "samples", "precision"]


def options(parser: argparse.ArgumentParser) -> None:
    """Which corpora."""
    parser.add_argument("corpora", nargs="+", type=Path)
    gpus_option(parser)


def study(asked: argparse.Namespace) -> dict[str, Any]:
    """What they cover."""
    covered = coverage(union(run for path in asked.corpora for run in read_runs(path)), load_catalog(asked.gpus))
    return covered if covered["n"] else Nothing(covered)


def coverage(runs: Sequence[Run], catalog: Catalog) -> dict[str, Any]:
    """Say what ``runs``, each recording once, cover: all of them in the tables, those on GPUs of the catalogue in the rest.

    ``n`` pairs to learn from, where each repeat of a run counts; ``missing``, what would complete the table of GPUs and
    workloads, with the seconds of an epoch elsewhere; ``protocols``, why the corpus cannot be evaluated by each, None where it
    can.
    """
    usable, left_out = on_known_gpus(runs, catalog)
    table, known = _table(runs), _table(usable)
    devices = table.groupby("gpu").agg(
        runs=("gpu", "size"),
        workloads=("workload", "nunique"),
        telemetry=("telemetry", lambda tiers: ", ".join(sorted(set(tiers)))),
        shortest_epoch_s=("epoch_s", "min"),
        longest_epoch_s=("epoch_s", "max"),
        least_busy=("busy", "min"),
        most_busy=("busy", "max"),
    )
    counts = pd.crosstab(table["workload"], table["gpu"])
    workloads = table.drop_duplicates("workload").set_index("workload")[_SIZES].join(counts).sort_values(_SIZES[:3])
    seconds = known.pivot_table("epoch_s", index="workload", columns="gpu", aggfunc="median")
    places = seconds.assign(epoch_s=seconds.median(axis=1)).melt("epoch_s", var_name="gpu", ignore_index=False)
    missing = places[places["value"].isna()].drop(columns="value").sort_values("epoch_s").reset_index()
    pairs, refusal = _pairs(usable, catalog)
    return {
        "runs": len(runs),
        "paired": int((seconds.notna().sum(axis=1) > 1).sum()),
        "n": len(pairs),
        "devices": devices.to_dict("index"),
        "workloads": workloads.astype(object).where(workloads.notna(), None).to_dict("index"),
        "missing": missing.to_dict("records"),
        "left_out": left_out,
        "protocols": {name: refusal or _refusal(pairs, name) for name in PROTOCOLS},
    }


def _table(runs: Sequence[Run]) -> pd.DataFrame:
    columns = ["gpu", "workload", "telemetry", "epoch_s", "busy", *_SIZES]
    rows = []
    for run in runs:
        busy, metric = busy_share(run.profile)
        sizes = (run.profile.group, run.image_size, run.batch_size, run.samples, run.precision)
        known = (run.profile.gpu, run.profile.workload, run.profile.feature_set, run.profile.epoch_s)
        rows.append((*known, busy if metric is not None else None, *sizes))
    return pd.DataFrame(rows, columns=columns)


def _pairs(runs: Sequence[Run], catalog: Catalog) -> tuple[list[Pair], str | None]:
    """The pairs, or none and why."""
    if not runs:
        return [], "no run is on a GPU in the catalogue"
    try:
        return make_pairs([run.profile for run in runs], catalog), None
    except REFUSALS as error:
        return [], str(error)


def _refusal(pairs: Sequence[Pair], protocol: str) -> str | None:
    """Why the pairs cannot be split by the protocol; None where they can."""
    try:
        list(splits(pairs, protocol))
    except REFUSALS as error:
        return str(error)
    return None


def on_known_gpus(runs: Sequence[Run], catalog: Catalog) -> tuple[list[Run], list[str]]:
    """The runs on GPUs of the catalogue, and for each other device a sentence: why its runs do not count."""
    reasons: dict[str, str] = {}
    for run in runs:
        if run.device == "cpu":
            reasons[run.profile.gpu] = "a CPU run has no GPU telemetry"
            continue
        try:
            catalog.resolve(run.profile.gpu)
        except REFUSALS as error:  # unknown or ambiguous
            reasons[run.profile.gpu] = str(error)
    kept = [run for run in runs if run.profile.gpu not in reasons]
    return kept, [f"{device}: {reason}" for device, reason in reasons.items()]
