"""``python -m lab.corpus.anchors``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import numpy as np

from epochcast.analyzer.cli import terminal
from epochcast.analyzer.cli.shared_options import gpus_option, json_option, regressor_option
from epochcast.analyzer.corpus.training_data import load_training_data
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.tables import seconds_text, table
from epochcast.regressor import Catalog, Gpu, LatencyPredictor, Profile, load_catalog
from epochcast.regressor.anchors import Anchor, anchor_order
from epochcast.regressor.calibration import FEWEST
from epochcast.regressor.features import prior_log_ratio
from epochcast.regressor.pairs import Pair, make_pairs
from epochcast.regressor.profile import STATISTICS
from lab.commands import run


@click.command()
@click.option("--gpu", required=True, metavar="NAME", help="New GPU to choose workloads for.")
@click.option(
    "--k",
    "count",
    type=click.IntRange(min=FEWEST),
    metavar="N",
    default=10,
    show_default=True,
    help="Number of workloads to choose.",
)
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="PATH", help="Corpus to choose from instead of the model's own list."
)
@regressor_option
@gpus_option
@json_option
def anchors(gpu: str, count: int, data: Path | None, model: Path | None, gpus: Path | None, as_json: bool) -> int:
    """Choose the workloads to measure on a new GPU before running `epochcast fit regressor --onto MODEL`.

    The built-in model's workloads come from cloud-hw-trainpred (TensorFlow): CNN, batch size and image size in pixels.
    Measure each one on the new GPU and on a GPU that the model knows.

    \b
    Example: python -m lab.corpus.anchors --gpu L4 --k 5
    """
    catalog = load_catalog(gpus)
    target = catalog.resolve(gpu)
    predictor = LatencyPredictor.load(model, catalog)
    chosen = _order(predictor, data, count)
    correction = predictor.recipe.correction_
    known = correction is not None and target.name in correction.gpus
    seconds = [_expected_seconds(anchor, target, catalog) for anchor in chosen]
    mape = {} if predictor.reliability.anchoring is None else predictor.reliability.anchoring.mape
    if as_json:
        answer = {
            "gpu": target.name,
            "known": known,
            "anchors": [
                {**anchor, "seconds": expected, "reason": _reason(anchor)}
                for anchor, expected in zip(chosen, seconds, strict=True)
            ],
            "seconds": sum(seconds),
            "mape_by_anchors": {str(number): error for number, error in mape.items()},
        }
        click.echo(json.dumps(answer, indent=2))
        return 0
    rows = [
        (
            str(number),
            anchor["workload"],
            anchor["group"] or "-",
            seconds_text(expected),
            f"{100 * anchor['busy_share']:.0f} %",
            f"{100 * anchor['covered']:.0f} %",
        )
        for number, (anchor, expected) in enumerate(zip(chosen, seconds, strict=True), start=1)
    ]
    terminal.say(table(("", "workload", "group", f"epoch on {target.name}", "busy", "covered"), rows))
    terminal.say("covered: the share of the differences between the known workloads that the anchors explain, down to this row")
    terminal.say(f"one epoch of each takes about {seconds_text(sum(seconds))} (from utilisation and data sheets alone)")
    terminal.say("leave out what does not fit on the GPU; to measure fewer, take the first ones")
    if mape:
        errors = ", ".join(f"{error:.1f} % with {number or 'none'}" for number, error in mape.items())
        terminal.say(f"mean error on GPUs left out of training, by how many anchors were measured: {errors}")
    if known:
        terminal.say(
            f"the model already has telemetry of the {target.name}: more of it helps to train a new model, not to calibrate"
        )
    return 0


def _expected_seconds(anchor: Anchor, target: Gpu, catalog: Catalog) -> float:
    """Seconds per epoch of an anchor on a GPU that it was not measured on, by the zero-training prior at boost clocks.

    Raises:
        InputError: the catalogue does not know the GPU that the anchor's epoch was measured on.
    """
    activity = {"gpu_utilization": dict.fromkeys(STATISTICS, anchor["busy_share"])}
    profile = Profile(anchor["gpu"], anchor["epoch_s"], "epoch", 1, activity, "nvml", False)
    pair = Pair(profile, catalog.resolve(anchor["gpu"]), target)
    return anchor["epoch_s"] * float(np.exp(prior_log_ratio([pair])[0]))


def _order(predictor: LatencyPredictor, data: Path | None, count: int) -> list[Anchor]:
    if data is not None:
        profiles, left_out = load_training_data([data], predictor.catalog)
        for sentence in left_out:
            terminal.note(sentence)
        return anchor_order(make_pairs(profiles, predictor.catalog), count)
    if predictor.reliability.anchoring is None:
        raise InputError(
            f"the model holds no list of anchors, as it was trained on {len(predictor.training['gpus'])} GPUs; "
            "give the corpus to choose from (--data)"
        )
    listed = predictor.reliability.anchoring.anchors
    if count > len(listed):
        raise InputError(f"the model lists {len(listed)} anchors, not {count}; choose fewer or give the corpus (--data)")
    return listed[:count]


def _reason(anchor: Anchor) -> str:
    return (
        f"busy {100 * anchor['busy_share']:.0f} % of the time on {anchor['gpu']}; with it the anchors explain "
        f"{100 * anchor['covered']:.0f} % of the differences between the known workloads"
    )


if __name__ == "__main__":
    sys.exit(run(anchors, "lab.corpus.anchors"))
