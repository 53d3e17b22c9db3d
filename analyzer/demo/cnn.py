"""The demo's convolutional network in NumPy: im2col convolutions, max pooling, two dense layers, SGD with momentum.

Layout: images are (n, height, width, channels); a convolution's weights are (3·3·channels in, channels out), rows ordered by
kernel row, kernel column, channel.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Floats = NDArray[np.float32]
Parameters = dict[str, Floats]

CHANNELS = (1, 32, 64, 64)  # of the input and after each convolution; each convolution is followed by ReLU and 2x2 pooling
HIDDEN = 128
MOMENTUM = 0.9


def initial_parameters(size: int, classes: int, rng: np.random.Generator) -> Parameters:
    """He-normal weights and zero biases for images of ``size`` x ``size`` pixels (a multiple of 8)."""
    flat = CHANNELS[-1] * (size // 2 ** (len(CHANNELS) - 1)) ** 2
    shapes = {f"conv{i}": (9 * CHANNELS[i - 1], CHANNELS[i]) for i in range(1, len(CHANNELS))}
    shapes |= {"hidden": (flat, HIDDEN), "output": (HIDDEN, classes)}
    parameters: Parameters = {}
    for name, shape in shapes.items():
        parameters[f"{name}.weight"] = (rng.standard_normal(shape) * np.sqrt(2 / shape[0])).astype(np.float32)
        parameters[f"{name}.bias"] = np.zeros(shape[1], dtype=np.float32)
    return parameters


class Network:
    """Network and optimiser state, on one thread."""

    def __init__(self, parameters: Parameters) -> None:
        threadpool_limits(1)
        self.parameters = {name: values.copy() for name, values in parameters.items()}
        self.velocity = {name: np.zeros_like(values) for name, values in parameters.items()}

    def train_batch(self, images: Floats, labels: NDArray[np.int64], rate: float) -> float:
        """One step of SGD on a batch of shape (n, size, size, 1); returns the mean cross-entropy before the step [nats]."""
        loss, gradients = self.gradients(images, labels)
        for name, gradient in gradients.items():
            velocity = self.velocity[name]
            velocity *= np.float32(MOMENTUM)
            velocity += gradient
            self.parameters[name] -= np.float32(rate) * velocity
        return loss

    def logits(self, images: Floats) -> Floats:
        """Class scores of shape (n, classes); nothing is kept for a backward pass."""
        x = images
        for i in range(1, len(CHANNELS)):
            convolved = _columns(x) @ self.parameters[f"conv{i}.weight"] + self.parameters[f"conv{i}.bias"]
            x = _pool(np.maximum(convolved, 0).reshape(*x.shape[:3], -1))
        hidden = x.reshape(len(x), -1) @ self.parameters["hidden.weight"] + self.parameters["hidden.bias"]
        scores: Floats = np.maximum(hidden, 0) @ self.parameters["output.weight"] + self.parameters["output.bias"]
        return scores

    def gradients(self, images: Floats, labels: NDArray[np.int64]) -> tuple[float, Parameters]:
        """Mean cross-entropy [nats] and its gradient by every parameter, by forward and backward pass."""
        kept: list[tuple[Floats, Floats]] = []  # per convolution: im2col columns, output after ReLU
        x = images
        for i in range(1, len(CHANNELS)):
            columns = _columns(x)
            y = np.maximum(columns @ self.parameters[f"conv{i}.weight"] + self.parameters[f"conv{i}.bias"], 0)
            y = y.reshape(*x.shape[:3], -1)
            kept.append((columns, y))
            x = _pool(y)
        flat = x.reshape(len(x), -1)
        hidden = np.maximum(flat @ self.parameters["hidden.weight"] + self.parameters["hidden.bias"], 0)
        scores = hidden @ self.parameters["output.weight"] + self.parameters["output.bias"]
        loss, slope = _cross_entropy(scores, labels)

        gradients: Parameters = {"output.weight": hidden.T @ slope, "output.bias": slope.sum(axis=0)}
        slope = (slope @ self.parameters["output.weight"].T) * (hidden > 0)
        gradients |= {"hidden.weight": flat.T @ slope, "hidden.bias": slope.sum(axis=0)}
        slope = (slope @ self.parameters["hidden.weight"].T).reshape(x.shape)
        for i in range(len(CHANNELS) - 1, 0, -1):
            columns, y = kept[i - 1]
            slope = _unpool(slope, y) * (y > 0)
            rows = slope.reshape(-1, slope.shape[-1])
            gradients |= {f"conv{i}.weight": columns.T @ rows, f"conv{i}.bias": rows.sum(axis=0)}
            if i > 1:  # nobody asks how the loss changes with the pixels
                slope = _fold(rows @ self.parameters[f"conv{i}.weight"].T, (*y.shape[:3], CHANNELS[i - 1]))
        return loss, gradients


def _columns(x: Floats) -> Floats:
    """im2col of a 3x3 kernel with zero padding: (n, h, w, c) -> (n·h·w, 9·c)."""
    n, h, w, c = x.shape
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    columns = np.empty((n, h, w, 9, c), dtype=x.dtype)
    for k in range(9):
        columns[:, :, :, k] = padded[:, k // 3 : k // 3 + h, k % 3 : k % 3 + w]
    return columns.reshape(n * h * w, 9 * c)


def _fold(columns: Floats, shape: tuple[int, ...]) -> Floats:
    """The transpose of `_columns`: sum every column entry back into the pixel that it came from; gives ``shape``."""
    n, h, w, c = shape
    parts = columns.reshape(n, h, w, 9, c)
    padded = np.zeros((n, h + 2, w + 2, c), dtype=columns.dtype)
    for k in range(9):
        padded[:, k // 3 : k // 3 + h, k % 3 : k % 3 + w] += parts[:, :, :, k]
    return padded[:, 1:-1, 1:-1]


def _pool(x: Floats) -> Floats:
    """2x2 maximum: (n, h, w, c) -> (n, h/2, w/2, c)."""
    pooled: Floats = np.maximum(np.maximum(x[:, ::2, ::2], x[:, ::2, 1::2]), np.maximum(x[:, 1::2, ::2], x[:, 1::2, 1::2]))
    return pooled


def _unpool(slope: Floats, x: Floats) -> Floats:
    """Gradient of `_pool` at its input ``x``: all of ``slope`` goes to the first largest of each four pixels."""
    out = np.zeros_like(x)
    largest = _pool(x)
    free = np.ones(largest.shape, dtype=bool)
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        taken = (x[:, row::2, column::2] == largest) & free
        out[:, row::2, column::2] = slope * taken
        free &= ~taken
    return out


def _cross_entropy(scores: Floats, labels: NDArray[np.int64]) -> tuple[float, Floats]:
    """Mean cross-entropy of softmax(scores) [nats] and its gradient by the scores."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    log_probability = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    row = np.arange(len(labels))
    slope = np.exp(log_probability)
    slope[row, labels] -= 1
    return float(-log_probability[row, labels].mean()), slope / scores.dtype.type(len(labels))
