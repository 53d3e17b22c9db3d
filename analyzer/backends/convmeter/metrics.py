"""The metrics of section 3: what can be counted of a network for one image; torchvision's ConvNets are counted already.

And measured points: one row per device, precision, network or block, image size, batch and number of devices. A table of points
is a DataFrame with the columns :data:`KEYS`, the measured seconds :data:`TIMES` (NaN where a phase was not measured) and the
metrics :data:`COLUMNS`. `python -m lab.measure convmeter` writes it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.measured_table import MeasuredTable
from epochcast.analyzer.errors import InputError
from epochcast.extras import how_to_install

TABLE = Path(__file__).with_name("known_metrics.csv.gz")

COMPUTING_KINDS = ("spatial", "pointwise", "grouped", "depthwise", "linear", "attention")
"""Kinds of layers with FLOPs: convolutions by kernel and groups (a 1 x 1 kernel is pointwise, up to four input channels per
group depthwise, wider groups grouped), dense layers, and products of two activations."""

MOVING_KINDS = ("elementwise", "normalisation", "pooling", "concatenation")
"""Kinds of layers that memory bounds; their FLOPs are not counted. Pooling is with means, sums and maxima over axes, and
concatenation with all other copies."""

KINDS = (*COMPUTING_KINDS, *MOVING_KINDS)

PER_IMAGE = (
    "flops",
    "conv_inputs",
    "conv_outputs",
    "narrow_flops",
    *(f"{kind}_flops" for kind in COMPUTING_KINDS),
    *(f"{kind}_traffic" for kind in KINDS),
)
"""Columns that grow with the batch.

``flops``: of all convolutions, dense layers and products; a multiplication and its addition are two. ``conv_inputs``,
``conv_outputs``: elements of the inputs and outputs of all convolutions (I and O of section 3). ``narrow_flops``: FLOPs of
convolutions that add up fewer than 64 products per output element (input channels per group times kernel), which fill no
matrix unit. ``KIND_traffic``: elements of the activations read and written.
"""

PER_NETWORK = (
    "weights",
    "conv_weights",
    "linear_weights",
    "layers",
    "parameter_tensors",
    "operators",
    *(f"{kind}_operators" for kind in KINDS),
)
"""Columns that do not grow with the batch.

``weights``: all trainable elements (W). ``conv_weights``, ``linear_weights``: kernels, without biases. ``layers``: convolutions
and dense layers (L). ``operators``: what runs on the device, views left out.
"""

COLUMNS = (*PER_NETWORK, *PER_IMAGE)


KEYS = ("device", "precision", "network", "block", "family", "image_size", "batch", "devices", "nodes")
"""``device``: name of the GPU or processor. ``block``: path of a submodule, empty for a whole network. ``family``: networks of
one design, which evaluation leaves out together. ``batch``: images per device and step. ``devices``: in all nodes together."""

CHANNELS_LAST = "-nhwc"
"""End of the name of a precision at which tensors are laid out channels last: layouts take different times."""

PHASES = ("inference", "forward", "backward", "update", "step")
"""``forward`` keeps what the backward pass needs, ``inference`` does not. ``update`` is the optimiser's, on several devices
with the exchange of gradients if it can be separated; ``step`` is all of forward, backward and update."""

TIMES = tuple(f"{phase}_seconds" for phase in PHASES)

_NAMES = ("device", "precision", "network", "block", "family")
_SHORTEST = 1e-9  # seconds; nothing runs faster, and fits divide by it
_COUNTS = ("image_size", "batch", "devices", "nodes")


@cache
def known_metrics() -> pd.DataFrame:
    """One row per network or block and image size; do not change it, every call gives the same.

    Columns: ``network`` (torchvision's name), ``family`` (torchvision's module, such as resnet), ``block`` (path, empty for the
    whole network), ``block_name`` (class and number, as Table 2 writes them), ``image_size`` and :data:`COLUMNS`. Image sizes
    that a network is too deep for are not there. `lab/speed/convmeter/known_metrics.py` makes the table.
    """
    return pd.read_csv(TABLE, keep_default_na=False, dtype=dict.fromkeys(COLUMNS, float) | {"image_size": int})


def name_of_network(text: str) -> str:
    """What an answer calls a network: files without their folders, torchvision's without the library."""
    return Path(text).name if text.endswith(".onnx") else text.removeprefix("torchvision:")


def metrics_of(text: str, image_size: int) -> dict[str, float]:
    """Metrics of one image by :data:`COLUMNS`; torch is loaded only for networks that are not in our table.

    Args:
        text: as :func:`..network.find.find_network` says.
        image_size: side of the square image, pixels.

    Raises:
        InputError: there is no such network, it cannot be counted, or counting it needs PyTorch, which cannot be loaded.
    """
    name, table = name_of_network(text), known_metrics()
    known = table[(table["network"] == name) & (table["image_size"] == image_size) & (table["block"] == "")]
    if len(known):
        return {column: float(known.iloc[0][column]) for column in COLUMNS}
    try:
        from epochcast.analyzer.backends.convmeter.counting import count
        from epochcast.analyzer.backends.network.find import find_network
    except ImportError as error:
        raise InputError(
            f"{text} at {image_size} pixels is not in the shipped table, and counting it needs PyTorch, which cannot be loaded "
            f"({error}); {how_to_install('torch,convnets')}"
        ) from error
    network, inputs = find_network(text, image_size)
    return count(network, inputs, name, image_size)[""]


def read_points(path: str | Path) -> pd.DataFrame:
    """Read a table of measured points (CSV).

    Raises:
        InputError: the file is no such table, holds no row, or a cell is empty or no number that can be.
    """
    table = MeasuredTable(Path(path), _NAMES, f"a table of points has {', '.join(KEYS)}, seconds and metrics")
    points = pd.DataFrame({name: table.texts(name) for name in ("device", "precision", "network")})
    points["block"], points["family"] = table.column("block").fillna(""), table.column("family")
    counts = {name: table.numbers(name, 1) for name in _COUNTS} | {name: table.numbers(name) for name in COLUMNS}
    times = {name: table.numbers(name, _SHORTEST, instead=np.nan) if name in table.rows else np.nan for name in TIMES}
    return points.assign(**counts, **times)[[*KEYS, *TIMES, *COLUMNS]]
