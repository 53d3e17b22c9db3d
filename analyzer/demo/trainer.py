"""The demo's training: a real network on this CPU, in a process of its own, which writes down when its epochs began and ended.

Nothing here is arranged for the detector: an epoch is what trainers do (reshuffle, augment, train on batches, validate without
gradients in bigger batches, write a checkpoint to the disk), without a single sleep. It has one thread (`recordings` sees to
that): two that spin while they wait for each other took up to seven times as much CPU for one epoch as for another where others
use the CPUs (measured).

    python -m epochcast.analyzer.demo.trainer SECONDS marks.json
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from epochcast.common.files import write_whole

EPOCHS = 8  # aimed at: enough to show a period, few enough that one lasts longer than what is called a step
_LEAST_EPOCHS = 5  # trained even where a machine turns out slower than it was during calibration
_CALIBRATION_IMAGES, _CALIBRATION_S = 256, 2.5
_BATCH, _VALIDATION_BATCH = 64, 512
_VALIDATION_SHARE = 3  # one validation image per so many training images
_LEAST_IMAGES, _MOST_IMAGES = 512, 65536
_LAYERS = (1024, 512)
_CLASSES = np.arange(10)

Pixels = NDArray[np.float32]


def train(seconds: float, marks: Path, *, say: Callable[[str], object]) -> dict[str, Any]:
    """Train for about ``seconds`` and keep ``marks`` (a label file) up to date after every epoch; returns its content.

    Next to the marks [unix s] it holds images per epoch, loss [nats] and validation accuracy per epoch.
    The checkpoint is written next to it. ``say`` gets one line per epoch.
    """
    began, rng = time.time(), np.random.default_rng(0)
    pixels, labels = load_digits(return_X_y=True)
    held_out = rng.random(len(pixels)) < 1 / (1 + _VALIDATION_SHARE)
    training, validation = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    count = _images_per_epoch(pixels, labels, (seconds - _CALIBRATION_S) / EPOCHS, rng)
    network = _network()
    record: dict[str, Any] = {
        "epoch_starts": [],
        "epoch_ends": [],
        "training": True,
        "images": count,
        "losses": [],
        "accuracies": [],
    }
    say(f"{count} images per epoch")
    while True:
        start = time.time()
        drawn, checked = rng.choice(training, count), rng.choice(validation, count // _VALIDATION_SHARE)
        _train_epoch(network, augment(pixels[drawn], rng), labels[drawn])
        accuracy = _accuracy(network, pixels[checked], labels[checked], rng)
        _save_checkpoint(network, marks.with_suffix(".checkpoint.npz"))
        end, loss = time.time(), float(network.loss_)
        for key, value in (("epoch_starts", start), ("epoch_ends", end), ("losses", loss), ("accuracies", accuracy)):
            record[key].append(value)
        write_whole(marks, lambda file: file.write(json.dumps(record, indent=1).encode()))
        done = len(record["losses"])
        say(f"epoch {done}: {end - start:.2f} s, loss {loss:.3f}, validation accuracy {accuracy:.1%}")
        if done >= _LEAST_EPOCHS and time.time() - began + (end - start) / 2 > seconds:
            return record


def augment(pixels: NDArray[np.float64], rng: np.random.Generator) -> Pixels:
    """Digits (n, 64) of 0..16 as a network takes them, (n, 256) of about 0..1: twice as large, shifted, brighter, noisier."""
    large = np.kron(pixels.reshape(-1, 8, 8).astype(np.float32) / 16, np.ones((1, 2, 2), np.float32))
    shifts = rng.integers(-2, 3, size=(len(large), 2))
    moved = np.stack([np.roll(image, shift, axis=(0, 1)) for image, shift in zip(large, shifts, strict=True)])
    bright = moved.reshape(len(moved), -1) * rng.uniform(0.7, 1.3, size=(len(moved), 1)).astype(np.float32)
    noisy: Pixels = bright + 0.1 * rng.standard_normal(bright.shape, dtype=np.float32)
    return noisy


def _network() -> MLPClassifier:
    return MLPClassifier(_LAYERS, random_state=0)


def _images_per_epoch(pixels: NDArray[np.float64], labels: NDArray[np.int64], epoch_s: float, rng: np.random.Generator) -> int:
    """How many images an epoch of about ``epoch_s`` takes, by trial on a network that is thrown away after.

    On a machine that other processes share, the answer is between an epoch's length if they go on as they do now (by wall
    time) and its length once they are gone (by CPU time): nobody knows which it will be, so their geometric mean is taken.
    """
    network, spent, began = _network(), list[float](), time.perf_counter()
    while len(spent) < 3 or time.perf_counter() - began < _CALIBRATION_S:
        wall, cpu = time.perf_counter(), time.process_time()
        drawn = rng.integers(len(pixels), size=_CALIBRATION_IMAGES)
        _train_epoch(network, augment(pixels[drawn], rng), labels[drawn])
        _accuracy(network, pixels[drawn[::_VALIDATION_SHARE]], labels[drawn[::_VALIDATION_SHARE]], rng)
        spent.append(float(np.sqrt((time.perf_counter() - wall) * (time.process_time() - cpu))))
    count = epoch_s * _CALIBRATION_IMAGES / float(np.median(spent))
    return int(np.clip(count, _LEAST_IMAGES, _MOST_IMAGES)) // _BATCH * _BATCH


def _train_epoch(network: MLPClassifier, pixels: Pixels, labels: NDArray[np.int64]) -> None:
    for begin in range(0, len(pixels), _BATCH):
        batch = slice(begin, begin + _BATCH)
        network.partial_fit(pixels[batch], labels[batch], classes=_CLASSES)


def _accuracy(
    network: MLPClassifier, pixels: NDArray[np.float64], labels: NDArray[np.int64], rng: np.random.Generator
) -> float:
    """Share of images whose digit the network names."""
    batches = [slice(begin, begin + _VALIDATION_BATCH) for begin in range(0, len(pixels), _VALIDATION_BATCH)]
    right = [network.predict(augment(pixels[batch], rng)) == labels[batch] for batch in batches]
    return float(np.concatenate(right).mean())


def _save_checkpoint(network: MLPClassifier, path: Path) -> None:
    """Weights on the disk, as a training that can be resumed leaves them."""
    write_whole(path, lambda file: np.savez(file, *network.coefs_, *network.intercepts_, allow_pickle=False))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    train(float(sys.argv[1]), Path(sys.argv[2]), say=_say)
