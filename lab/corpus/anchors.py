"""Choose the workloads to measure on a new GPU before running `epochcast fit regressor --onto MODEL`.

Measure each one on the new GPU and on a GPU that the model knows.

python -m lab.corpus anchors --gpu L4 --k 5 --data cloud_hw_trainpred.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from epochcast.analyzer.corpus.training_data import load_training_data
from epochcast.regressor import Catalog, Gpu, LatencyPredictor, Profile, load_catalog
from epochcast.regressor.pairs import Pair, make_pairs
from epochcast.regressor.profile import STATISTICS
from lab.commands import gpus_option, note
from lab.corpus.anchor_order import Anchor, anchor_order
from lab.rivals.latency.prior import prior_log_ratio


def options(parser: argparse.ArgumentParser) -> None:
    """For which GPU, how many, and from what."""
    parser.add_argument("--gpu", required=True, help="new GPU to choose workloads for")
    parser.add_argument("--k", type=int, default=10, help="number of workloads")
    parser.add_argument("--data", type=Path, required=True, help="corpus to choose from")
    parser.add_argument("--regressor", type=Path, help="folder of the fitted model (default: the one that is shipped)")
    gpus_option(parser)


def study(asked: argparse.Namespace) -> dict[str, Any]:
    """The anchors, in order: ``covered`` is the share of the differences between the known workloads that they explain, down to
    this one; ``expected_s`` is from utilisation and data sheets alone."""
    catalog = load_catalog(asked.gpus)
    target = catalog.resolve(asked.gpu)
    profiles, left_out = load_training_data([asked.data], catalog)
    for sentence in left_out:
        note(sentence)
    telemetry = LatencyPredictor.load(asked.regressor, catalog).recipe.telemetry_
    chosen = [
        {**anchor, "expected_s": _expected_seconds(anchor, target, catalog)}
        for anchor in anchor_order(make_pairs(profiles, catalog), asked.k)
    ]
    return {
        "gpu": target.name,
        "known": telemetry is not None and target.name in telemetry.gpus,
        "anchors": chosen,
        "seconds": sum(anchor["expected_s"] for anchor in chosen),
    }


def _expected_seconds(anchor: Anchor, target: Gpu, catalog: Catalog) -> float:
    """Seconds per epoch of an anchor on a GPU that it was not measured on, by the zero-training prior at boost clocks."""
    activity = {"gpu_utilization": dict.fromkeys(STATISTICS, anchor["busy_share"])}
    profile = Profile(anchor["gpu"], anchor["epoch_s"], "epoch", 1, activity, "nvml", False)
    pair = Pair(profile, catalog.resolve(anchor["gpu"]), target)
    return anchor["epoch_s"] * float(np.exp(prior_log_ratio([pair])[0]))
