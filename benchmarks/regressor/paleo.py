"""The paper's Table VI: Paleo, which is given the architecture, beside the black box, which is not, on the same rows.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.paleo [--keep DIR] [--write]    (needs torch)
"""

import csv
import math
from collections.abc import Iterator
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from epochcast.analyzer.backends.networks import NETWORKS, build
from epochcast.analyzer.backends.paleo import (
    PERCENT_OF_PEAK,
    Layer,
    fit_percent_of_peak,
    predict_forward_seconds,
    predict_step_seconds,
)
from epochcast.regressor import Gpu, load_catalog, load_corpus
from epochcast.regressor.pairs import source_seconds
from epochcast.regressor.protocols import splits
from epochcast.regressor.recipes import RECIPES
from epochcast.regressor.scoring import score

from .latency_only import DATA as PROFET_DATA
from .paleo_layers import layers_of
from .public_pairs import DATA, SEED, PublicPairs, header, line, options, report

Floats = NDArray[np.float64]

PROTOCOLS = ("P2", "P3", "P4")
BLACK_BOX = ("same-latency", "paper", "default")
FIXED = {f"{100 * constant:.0f} %": constant for constant in (1.0, PERCENT_OF_PEAK)}
RATIO = "its ratio times the source epoch"
FITTED = "one constant, fitted"
FITTED_BY_MODEL = "one constant per model, fitted"

# Of each image size, as ddps-lab/profet has them (`data_generation/workload/dataset_info.py`): training images, validation
# images, classes. cloud-hw-trainpred states the first, which are the same, and neither of the others.
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


def check_training_images() -> None:
    """Stop if the file's training images per image size are not those of :data:`IMAGES`."""
    with DATA.open(newline="", encoding="utf-8") as file:
        found = {(int(row["datasize"]), int(row["totaldata"])) for row in csv.DictReader(file)}
    if wrong := [(size, images) for size, images in sorted(found) if size not in IMAGES or IMAGES[size][0] != images]:
        raise SystemExit(f"{DATA.name} has other training images per image size than PROFET: {wrong}")


class Comparison:
    """The pairs whose model is among the paper's, Paleo's seconds of their targets, and predictions of all kinds."""

    def __init__(self, data: PublicPairs) -> None:
        self.data = data
        self.models = np.array([str(pair.source.group) for pair in data.pairs])
        self.known = np.isin(self.models, list(NETWORKS))
        self.at_full_peak, self.on_source = np.full((2, len(data.pairs)), np.nan)
        for row in np.flatnonzero(self.known).tolist():
            pair = data.pairs[row]
            model, batch, image_size = str(pair.source.workload).split("|")
            work = (model, int(batch), int(image_size))
            self.at_full_peak[row] = epoch_seconds(*work, pair.target_gpu)
            self.on_source[row] = epoch_seconds(*work, pair.source_gpu)

    def predicted(self, predictor: str, protocol: str) -> Floats:
        """Seconds of each pair's target, shape (pairs,), none of its fold seen."""
        if predictor in BLACK_BOX:
            return self.data.predicted(RECIPES[predictor](), protocol)
        if predictor == RATIO:
            return source_seconds(self.data.pairs) * self.at_full_peak / self.on_source
        return self.at_full_peak / self.constants(predictor, protocol)

    def constants(self, predictor: str, protocol: str) -> Floats:
        """The platform percent of peak that each pair's target is predicted with, shape (pairs,); NaN where it has none."""
        if predictor in FIXED:
            return np.full(len(self.known), FIXED[predictor])
        constants = np.full(len(self.known), np.nan)
        for train, test in splits(self.data.pairs, protocol, SEED):
            groups = [self.known] if predictor == FITTED else [self.models == model for model in NETWORKS]
            for rows in groups:
                seen, asked = train[rows[train]], test[rows[test]]
                if len(seen) and len(asked):
                    constants[asked] = fit_percent_of_peak(self.at_full_peak[seen], self.data.actual[seen])
        return constants


def predictors(protocol: str) -> Iterator[tuple[str, str]]:
    """Name in the table and key of :meth:`Comparison.predicted`; a new architecture has no constant of its own."""
    for key in (*FIXED, FITTED):
        yield f"Paleo, {key}", key
    if protocol != "P3":
        yield f"Paleo, {FITTED_BY_MODEL}", FITTED_BY_MODEL
    yield f"Paleo, {RATIO}", RATIO
    for key in BLACK_BOX:
        yield f"`{key}`", key


def overall(comparison: Comparison) -> Iterator[str]:
    """One line per protocol and predictor, over all models."""
    rows = comparison.known
    yield from header("protocol", "predictor", "MAPE %", "median %", "RMSE s", "constant, range over folds", "n")
    for protocol in PROTOCOLS:
        for name, key in predictors(protocol):
            one = score(comparison.data.actual[rows], comparison.predicted(key, protocol)[rows])
            constant = "–"
            if key not in (*BLACK_BOX, RATIO):
                used = comparison.constants(key, protocol)[rows]
                constant = f"{np.nanmin(used):.2f}–{np.nanmax(used):.2f}" if np.ptp(used) else f"{used[0]:.2f}"
            yield line(protocol, name, f"{one.mape:.2f}", f"{one.median_ape:.2f}", f"{one.rmse:.2f}", constant, f"{one.n}")


def by_model(comparison: Comparison) -> Iterator[str]:
    """MAPE and, in brackets, RMSE of each model."""
    models = [model for model in NETWORKS if (comparison.models == model).any()]
    rows = {model: comparison.models == model for model in models}
    yield from header("protocol", "predictor", *models)
    for protocol in PROTOCOLS:
        for name, key in predictors(protocol):
            predicted = comparison.predicted(key, protocol)
            scores = [score(comparison.data.actual[rows[model]], predicted[rows[model]]) for model in models]
            yield line(protocol, name, *(f"{one.mape:.1f} ({one.rmse:.2f})" for one in scores))
    yield line("", "Paleo at full peak / measured, median", *(f"{_ratio(comparison, rows[model]):.2f}" for model in models))
    yield line("n", "", *(f"{rows[model].sum()}" for model in models))


def _ratio(comparison: Comparison, rows: NDArray[np.bool_]) -> float:
    return float(np.median(comparison.at_full_peak[rows] / comparison.data.actual[rows]))


def of_profet() -> Iterator[str]:
    """Paleo on PROFET's epochs, model by model; the ratio at full peak on each GPU."""
    catalog = load_catalog()
    runs = [profile for profile in load_corpus(PROFET_DATA) if profile.group in NETWORKS]
    models, gpus = (np.array([getattr(profile, name) for profile in runs]) for name in ("group", "gpu"))
    measured, full = np.array([profile.epoch_s for profile in runs], dtype=np.float64), np.empty(len(runs))
    for row, profile in enumerate(runs):
        model, _, data_set, batch = str(profile.workload).split("|")
        full[row] = epoch_seconds(model, int(batch), int(data_set.removesuffix("dataset")), catalog.resolve(profile.gpu))
    on = {catalog.resolve(gpu).name: gpus == gpu for gpu in sorted(set(gpus))}
    yield from header("network", *FIXED, *on, "n")
    for model in NETWORKS:
        rows = models == model
        if rows.any():
            scores = [score(measured[rows], full[rows] / constant) for constant in FIXED.values()]
            ratios = [np.median((full / measured)[rows & of_gpu]) for of_gpu in on.values()]
            cells = [f"{one.mape:.1f} ({one.rmse:.2f})" for one in scores] + [f"{ratio:.2f}" for ratio in ratios]
            yield line(model, *cells, f"{rows.sum()}")


def parts(comparison: Comparison) -> Iterator[str]:
    """The part of the page."""
    kept = int(comparison.known.sum())
    targets = zip(comparison.data.workloads, comparison.data.targets, comparison.known, strict=True)
    rows = len({(workload, gpu) for workload, gpu, known in targets if known})
    yield (
        f"cloud-hw-trainpred: {kept} pairs of two GPUs into {rows} measured epochs. The black box is given telemetry and epoch "
        "of one GPU, and predicts the epoch on the other. Paleo is given network, batch, images and data sheet of that other "
        "GPU, and no measurement, but in the lines that say so: a constant of least MAPE on the training folds, or the epoch "
        "of the first GPU, times the ratio of its predictions for both."
    )
    yield ""
    yield from overall(comparison)
    yield ""
    yield "By model, MAPE in % and, in brackets, RMSE in seconds:"
    yield ""
    yield from by_model(comparison)
    yield ""
    yield "Paleo on PROFET's epochs (another campaign, the second epoch of each run), MAPE in % and RMSE in seconds; under each"
    yield "GPU the median of Paleo at full peak / measured:"
    yield ""
    yield from of_profet()
    yield ""
    yield "The paper's Table VI, for VGG16 on rows that are not public:"
    yield ""
    yield from header("", "MAPE %", "RMSE s")
    for name, figures in CLAIMED.items():
        yield line(name, *figures)


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    check_training_images()
    report("paleo", parts(Comparison(PublicPairs.load(chosen.keep))), chosen)
