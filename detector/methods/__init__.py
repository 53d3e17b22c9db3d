"""The detection methods: one file each, one line here.

A method is a function of the cleaned signals and the chosen clock, with its own parameters as keywords.
"""

from collections.abc import Callable

from ..epochs import Detection
from . import paper, track

METHODS: dict[str, Callable[..., Detection]] = {
    "paper": paper.detect,
    "track": track.detect,
}
