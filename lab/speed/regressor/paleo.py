"""The paper's Table VI: Paleo, which is given the architecture, next to the black box, which is not, on the same rows.

EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.paleo [--write]    (needs torch)
"""

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from epochcast.regressor import Gpu, load_catalog
from epochcast.regressor.pairs import source_seconds
from epochcast.regressor.scoring import Scores, score
from lab.campaign.networks import NETWORKS, build
from lab.corpora import load_corpus
from lab.rivals.latency import RECIPES
from lab.rivals.paleo import PERCENT_OF_PEAK, Layer, predict_forward_seconds, predict_step_seconds
from lab.speed.page import REGRESSOR, markdown_table, options, publish
from lab.speed.regressor.paleo_layers import layers_of
from lab.speed.regressor.public_pairs import PROFET, PublicPairs

PROTOCOLS = ("P2", "P3", "P4")
FIXED = {f"{100 * constant:.0f} %": constant for constant in (1.0, PERCENT_OF_PEAK)}

# Of each image size, as ddps-lab/profet has them (`data_generation/workload/dataset_info.py`): training images, validation
# images, classes. cloud-hw-trainpred states the first in each row, and they are the same; it states neither of the others.
IMAGES = {32: (50_000, 10_000, 10), 64: (5_000, 1_000, 100), 128: (5_000, 1_000, 100)} | dict.fromkeys(
    (224, 256), (2_000, 500, 1_000)
)

# Table VI, for VGG16: MAPE in percent and RMSE in seconds.
CLAIMED = {"Paleo": ("10.11", "32.36"), "its black box": ("15.14", "4.14")}


@cache
def layers(model: str, image_size: int, classes: int) -> list[Layer]:
    """The layers of one of the paper's networks."""
    with torch.device("meta"):
        return layers_of(build(model, image_size, classes), image_size)


def epoch_seconds(model: str, batch: int, image_size: int, gpu: Gpu) -> float:
    """Seconds of an epoch with its validation by Paleo, at the full peak of the GPU."""
    training, validation, classes = IMAGES[image_size]
    network = layers(model, image_size, classes)
    step = predict_step_seconds(network, gpu, batch, percent_of_peak=1)
    forward = predict_forward_seconds(network, gpu, batch, percent_of_peak=1)
    return math.ceil(training / batch) * step + math.ceil(validation / batch) * forward


def _cell(scores: Scores) -> str:
    return f"{scores.mape:.1f} ({scores.rmse:.2f})"


def of_public_pairs() -> Iterator[str]:
    """Over all pairs, and by model; what knows nothing of other rows is the same in each protocol."""
    public = PublicPairs.load()
    pairs, actual, source = public.pairs, public.actual, source_seconds(public.pairs)
    works = [(model, int(batch), int(size)) for model, batch, size in (name.split("|") for name in public.workloads)]
    full = np.array([epoch_seconds(*work, pair.target_gpu) for work, pair in zip(works, pairs, strict=True)])
    on_source = np.array([epoch_seconds(*work, pair.source_gpu) for work, pair in zip(works, pairs, strict=True)])
    predicted: dict[tuple[str, str], NDArray[np.float64]] = {
        **{("–", f"Paleo, {name}"): full / constant for name, constant in FIXED.items()},
        ("–", "Paleo, its ratio times the source epoch"): source * full / on_source,
        ("–", "`same-latency`"): source,
    }
    for protocol in PROTOCOLS:
        predicted |= {(protocol, f"`{name}`"): public.predicted(RECIPES[name](), protocol) for name in ("paper", "default")}
    models = np.array([model for model, _, _ in works])
    of_model = {model: models == model for model in NETWORKS if (models == model).any()}
    rows = []
    for named, seconds in predicted.items():
        scores = score(actual, seconds)
        by_model = (_cell(score(actual[here], seconds[here])) for here in of_model.values())
        rows.append((*named, f"{scores.mape:.2f}", f"{scores.median_ape:.2f}", f"{scores.rmse:.2f}", *by_model))
    ratios = (f"{np.median((full / actual)[here]):.2f}" for here in of_model.values())
    rows.append(("", "Paleo at full peak / measured, median", "", "", "", *ratios))
    rows.append(("", "n", f"{len(pairs)}", "", "", *(f"{here.sum()}" for here in of_model.values())))
    epochs = set(zip(public.workloads, public.targets, strict=True))
    yield (
        f"cloud-hw-trainpred: {len(pairs)} pairs of two GPUs into {len(epochs)} "
        "measured epochs. The black box is given telemetry and epoch of one GPU, and predicts the epoch on the other. Paleo is "
        "given network, batch, images and data sheet of that other GPU, and no measurement, but in the line that says so: the "
        "epoch of the first GPU, times the ratio of its predictions for both. By model: MAPE in % and, in brackets, RMSE in "
        "seconds."
    )
    yield ""
    yield from markdown_table(("protocol", "predictor", "MAPE %", "median %", "RMSE s", *of_model), rows)


def of_profet() -> Iterator[str]:
    """Paleo on PROFET's epochs, model by model; the ratio at full peak on each GPU."""
    catalog = load_catalog()
    runs = [profile for profile in load_corpus(PROFET) if profile.group in NETWORKS]
    models, gpus = (np.array([getattr(profile, name) for profile in runs]) for name in ("group", "gpu"))
    measured, full = np.array([profile.epoch_s for profile in runs], dtype=np.float64), np.empty(len(runs))
    for row, profile in enumerate(runs):
        model, _, data_set, batch = str(profile.workload).split("|")
        full[row] = epoch_seconds(model, int(batch), int(data_set.removesuffix("dataset")), catalog.resolve(profile.gpu))
    on = {catalog.resolve(gpu).name: gpus == gpu for gpu in sorted(set(gpus))}
    rows = []
    for model in NETWORKS:
        here = models == model
        if here.any():
            errors = (_cell(score(measured[here], full[here] / constant)) for constant in FIXED.values())
            ratios = (f"{np.median((full / measured)[here & of_gpu]):.2f}" for of_gpu in on.values())
            rows.append((model, *errors, *ratios, f"{here.sum()}"))
    yield "Paleo on PROFET's epochs (another campaign, the second epoch of each run), MAPE in % and RMSE in seconds; under each"
    yield "GPU the median of Paleo at full peak / measured:"
    yield ""
    yield from markdown_table(("network", *FIXED, *on, "n"), rows)


def lines() -> Iterator[str]:
    """The part of the page."""
    yield from of_public_pairs()
    yield ""
    yield from of_profet()
    yield ""
    yield "The paper's Table VI, for VGG16 on rows that are not public:"
    yield ""
    yield from markdown_table(("", "MAPE %", "RMSE s"), [(name, *figures) for name, figures in CLAIMED.items()])


if __name__ == "__main__":
    publish(REGRESSOR, "paleo", lines(), write=options(__doc__).parse_args().write)
