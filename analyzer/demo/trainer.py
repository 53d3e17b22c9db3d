"""The demo's training: a real CNN on this CPU, in a process of its own, which writes down when its epochs began and ended.

Nothing here is arranged for the detector: an epoch is what trainers do (reshuffle, augment, train on batches, validate without
gradients in bigger batches, write a checkpoint to the disk), without a single sleep. It has one thread: two that spin while
they wait for each other took up to seven times as much CPU for one epoch as for another where others use the CPUs (measured).

    python -m epochcast.analyzer.demo.trainer --seconds 45 --marks marks.json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.demo import images
from epochcast.analyzer.demo.cnn import Floats, Network, initial_parameters
from epochcast.analyzer.errors import InputError
from epochcast.common.files import write_whole

EPOCHS = 8  # aimed at: enough to show a period, few enough that one lasts longer than what is called a step
_LEAST_EPOCHS = 5  # trained even where a machine turns out slower than it was during calibration
_LEAST_SECONDS, _MOST_SECONDS = 5.0, 3600.0
_CALIBRATION_IMAGES, _CALIBRATION_S = 256, 2.5
_BATCH, _VALIDATION_BATCH = 64, 512
_VALIDATION_SHARE = 3  # one validation image per so many training images
_RATE = 0.01
_LEAST_IMAGES, _MOST_IMAGES = 512, 32768


def train(seconds: float, marks: Path, *, say: Callable[[str], object]) -> dict[str, Any]:
    """Train for about ``seconds`` and keep ``marks`` (a label file) up to date after every epoch; returns its content.

    Next to the marks [unix s] it holds images per epoch, loss [nats] and validation accuracy per epoch.
    The checkpoint is written next to it. ``say`` gets one line per epoch. Raises InputError for bad settings.
    """
    began = time.time()
    if not _LEAST_SECONDS <= seconds <= _MOST_SECONDS:
        raise InputError(f"--seconds is {seconds:g}; give {_LEAST_SECONDS:g} to {_MOST_SECONDS:g}")
    rng = np.random.default_rng(0)
    initial = initial_parameters(images.SIZE, len(images.CLASSES), rng)
    remaining_s = seconds - _CALIBRATION_S - (time.time() - began)
    count = _images_per_epoch(Network(initial), remaining_s / EPOCHS, rng)
    pixels, labels = images.draw(count, rng)
    held_out, held_out_labels = images.draw(count // _VALIDATION_SHARE, rng)
    network = Network(initial)
    record: dict[str, Any] = {
        "epoch_starts": [],
        "epoch_ends": [],
        "training": True,
        "images": count,
        "validation_images": len(held_out),
        "losses": [],
        "accuracies": [],
    }
    weights = sum(values.size for values in initial.values())
    say(f"{count} images per epoch, {weights} weights")
    while True:
        start = time.time()
        order = rng.permutation(count)
        augmented, shuffled = images.augment(pixels[order], rng), labels[order]
        loss = _train_epoch(network, augmented, shuffled)
        accuracy = _accuracy(network, held_out, held_out_labels)
        _save_checkpoint(network, marks.with_suffix(".checkpoint.npz"))
        end = time.time()
        for key, value in (("epoch_starts", start), ("epoch_ends", end), ("losses", loss), ("accuracies", accuracy)):
            record[key].append(value)
        write_whole(marks, lambda file: file.write(json.dumps(record, indent=1).encode()))
        done = len(record["losses"])
        say(f"epoch {done}: {end - start:.2f} s, loss {loss:.3f}, validation accuracy {accuracy:.1%}")
        if done >= _LEAST_EPOCHS and time.time() - began + (end - start) / 2 > seconds:
            return record


def _images_per_epoch(network: Network, epoch_s: float, rng: np.random.Generator) -> int:
    """How many images an epoch of about ``epoch_s`` takes, by trial on a network that is thrown away after.

    On a machine that other processes share, the answer is between an epoch's length if they go on as they do now (by wall
    time) and its length once they are gone (by CPU time): nobody knows which it will be, so their geometric mean is taken.
    """
    pixels, labels = images.draw(_CALIBRATION_IMAGES, rng)
    wall_s: list[float] = []
    cpu_s: list[float] = []
    began = time.perf_counter()
    while len(wall_s) < 3 or time.perf_counter() - began < _CALIBRATION_S:
        clocks = [(time.perf_counter(), time.process_time())]
        augmented = images.augment(pixels, rng)
        _train_epoch(network, augmented, labels)
        clocks.append((time.perf_counter(), time.process_time()))
        network.logits(augmented)
        clocks.append((time.perf_counter(), time.process_time()))
        (wall, cpu), (validation_wall, validation_cpu) = np.diff(clocks, axis=0)
        wall_s.append(wall + validation_wall / _VALIDATION_SHARE)
        cpu_s.append(cpu + validation_cpu / _VALIDATION_SHARE)
    count = epoch_s * len(pixels) / np.sqrt(float(np.median(cpu_s)) * float(np.median(wall_s)))
    return int(np.clip(count, _LEAST_IMAGES, _MOST_IMAGES)) // _BATCH * _BATCH


def _train_epoch(network: Network, pixels: Floats, labels: NDArray[np.int64]) -> float:
    """One pass of SGD over all images; the mean loss of its batches [nats]."""
    batches = [slice(begin, begin + _BATCH) for begin in range(0, len(pixels), _BATCH)]
    return float(np.mean([network.train_batch(pixels[batch], labels[batch], _RATE) for batch in batches]))


def _accuracy(network: Network, pixels: NDArray[np.uint8], labels: NDArray[np.int64]) -> float:
    """Share of images whose class the network names."""
    right = 0
    for begin in range(0, len(pixels), _VALIDATION_BATCH):
        batch = slice(begin, begin + _VALIDATION_BATCH)
        right += int((network.logits(images.normalise(pixels[batch])).argmax(axis=1) == labels[batch]).sum())
    return right / len(pixels)


def _save_checkpoint(network: Network, path: Path) -> None:
    """Weights and momentum on the disk, as a training that can be resumed leaves them."""
    state = network.parameters | {f"velocity/{name}": values for name, values in network.velocity.items()}
    write_whole(path, lambda file: np.savez(file, allow_pickle=False, **state))


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code (0, or 2 with one sentence for bad input)."""
    parser = argparse.ArgumentParser(
        prog="python -m epochcast.analyzer.demo.trainer", description="Train a small CNN on the CPU."
    )
    parser.add_argument("--seconds", type=float, default=45.0, help="how long to train, about (default %(default)g)")
    parser.add_argument(
        "--marks", type=Path, required=True, metavar="FILE", help="label file to write: when each epoch began and ended"
    )
    options = parser.parse_args(arguments)

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    try:
        if not options.marks.parent.is_dir():
            raise InputError(
                f"--marks {str(options.marks)!r}: there is no folder {str(options.marks.parent)!r}; create it first"
            )
        train(options.seconds, options.marks, say=say)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
