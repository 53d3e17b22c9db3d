"""Random configurations in the ranges of Table II of the DNN-occu paper.

Where the paper gives a range but no distribution the draw is uniform. What it leaves open is chosen here: width and layers of
recurrent networks ("default settings"; PyTorch's have no default width), a few lengths of text between its 20 and 512, for CLIP
any up to the 77 tokens that it has places for, and one image in five of a convolutional network smaller than its 224 pixels.
"""

from __future__ import annotations

from random import Random

from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.networks import complete, family

LENGTHS = (20, 32, 64, 128, 256, 384, 512)
"""Tokens of a text."""

CLIP_LENGTHS = (20, 77)
"""The least and the most tokens of a text that goes with an image."""

IMAGE_SIZE = 224
SMALLER_IMAGES = (96, 128, 160, 192)
SMALLER_SHARE = 0.2

_DRAWS = 20  # per configuration wanted; of some networks the batch alone is drawn, from 29


def draw(network: str, rng: Random, precision: str = "fp32") -> Configuration:
    """A random configuration of a network; the same one from the same state of ``rng``.

    Of networks that are not in the table the batch alone is drawn; their other sizes are the usual ones.

    Raises:
        InputError: there is no such precision.
    """
    kind = family(network)
    if kind == "rnn":
        drawn = Configuration(
            network,
            batch=8 * rng.randint(16, 64),
            sequence=8 * rng.randint(2, 16),
            hidden=rng.choice((128, 256, 512)),
            layers=rng.choice((1, 2)),
            precision=precision,
        )
        return complete(drawn)
    batch = 4 * rng.randint(4, 32)
    channels = image = sequence = 0
    if kind == "language":
        sequence = rng.choice(LENGTHS)
    elif kind in ("cnn", "vision_transformer", "multimodal"):
        channels, image = rng.randint(1, 10), IMAGE_SIZE
        if kind == "cnn" and rng.random() < SMALLER_SHARE:
            image = rng.choice(SMALLER_IMAGES)
        if kind == "multimodal":
            sequence = rng.randint(*CLIP_LENGTHS)
    return complete(Configuration(network, batch, channels, image, sequence, precision=precision))


def different(network: str, count: int, rng: Random) -> list[Configuration]:
    """So many different random configurations of a network; fewer where its ranges hold fewer."""
    drawn: dict[Configuration, None] = {}
    for _ in range(_DRAWS * count):
        if len(drawn) == count:
            break
        drawn[draw(network, rng)] = None
    return list(drawn)
