"""The detection methods: one file each, one line here.

A method is a function of the cleaned signals and the chosen clock, with its own parameters as keywords: `detect` of its file.
The lab adds those to compare with (`lab/rivals/detection`).
"""

from collections.abc import Callable

from epochcast.detector.epochs import Detection
from epochcast.detector.methods import paper, track

Method = Callable[..., Detection]

METHODS: dict[str, Method] = {"paper": paper.detect, "track": track.detect}
