"""A small labelled image set drawn on the spot: ten kinds of grey shapes in noise, so that the demo needs no download."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SIZE = 32  # pixels, height and width
CLASSES = ("disc", "ring", "square", "frame", "triangle", "cross", "diagonal cross", "stripes", "checkers", "two discs")

_CHUNK = 256  # images drawn at once: keeps the temporary arrays at a few MB


def draw(count: int, rng: np.random.Generator) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Draw ``count`` images: pixels of shape (count, 32, 32) as bytes and classes of shape (count,), 0..9.

    Place, size, rotation, contrast and noise are random; the classes are equally likely.
    """
    labels = rng.integers(len(CLASSES), size=count)
    pixels = np.empty((count, SIZE, SIZE), dtype=np.uint8)
    for begin in range(0, count, _CHUNK):
        chunk = slice(begin, begin + _CHUNK)
        pixels[chunk] = _draw_chunk(labels[chunk], rng)
    return pixels, labels


def augment(pixels: NDArray[np.uint8], rng: np.random.Generator) -> NDArray[np.float32]:
    """Images as a network takes them, changed at random: shifted by up to 3 pixels, mirrored, brighter or darker, noisier.

    Returns shape (n, 32, 32, 1), about -1..1. This is the data loader's work of a real training, done in one thread.
    """
    n = len(pixels)
    shift = rng.integers(-3, 4, size=(2, n, 1))
    mirror = rng.random((n, 1)) < 0.5
    column = np.arange(SIZE)[None, :]
    rows = np.clip(column + shift[0], 0, SIZE - 1)
    columns = np.clip(np.where(mirror, SIZE - 1 - column, column) + shift[1], 0, SIZE - 1)
    moved = normalise(pixels[np.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]])
    gain = rng.uniform(0.7, 1.3, size=(n, 1, 1, 1)).astype(np.float32)
    noise = rng.standard_normal(moved.shape, dtype=np.float32)
    changed: NDArray[np.float32] = moved * gain + np.float32(0.1) * noise
    return changed


def normalise(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Bytes of shape (n, 32, 32) as float32 of shape (n, 32, 32, 1), 0..255 mapped to -1..1."""
    scaled: NDArray[np.float32] = pixels[..., None].astype(np.float32) / np.float32(127.5) - np.float32(1)
    return scaled


def _draw_chunk(labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.uint8]:
    n = len(labels)
    centre = rng.uniform(11, 21, size=(2, n, 1, 1))
    radius = rng.uniform(6, 10, size=(n, 1, 1))
    angle = rng.uniform(-0.35, 0.35, size=(n, 1, 1))
    row, column = np.mgrid[0:SIZE, 0:SIZE]
    y, x = (row - centre[0]) / radius, (column - centre[1]) / radius
    x, y = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    distance, edge = np.hypot(x, y), np.maximum(abs(x), abs(y))
    inside = edge < 0.9
    shapes = (
        distance < 1,
        (distance < 1) & (distance > 0.6),
        inside,
        inside & (edge > 0.55),
        (y > -0.9) & (y < 0.9) & (2 * abs(x) < 0.9 + y),
        inside & ((abs(x) < 0.25) | (abs(y) < 0.25)),
        inside & (abs(abs(x) - abs(y)) < 0.3),
        inside & (np.sin(8 * y) > 0),
        inside & (np.sin(6 * x) * np.sin(6 * y) > 0),
        (np.hypot(x - 0.6, y) < 0.45) | (np.hypot(x + 0.6, y) < 0.45),
    )
    mask = np.choose(labels[:, None, None], shapes)
    background, contrast = rng.uniform(40, 140, size=(n, 1, 1)), rng.uniform(50, 110, size=(n, 1, 1))
    noisy = background + contrast * mask + rng.normal(0, 22, size=mask.shape)
    drawn: NDArray[np.uint8] = np.clip(noisy, 0, 255).astype(np.uint8)
    return drawn
