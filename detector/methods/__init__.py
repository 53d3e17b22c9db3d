"""The detection methods: one file each, one line here.

A method is a function of the cleaned signals and the chosen clock, with its own parameters as keywords.
"""

from collections.abc import Callable

from ..epochs import Detection
from . import autocorrelation, binseg, dynp, harmonic, jenks, notebook, paper, pelt, track

METHODS: dict[str, Callable[..., Detection]] = {
    "paper": paper.detect,
    "track": track.detect,
    "notebook": notebook.detect,
    "pelt": pelt.detect,
    "dynp": dynp.detect,
    "binseg": binseg.detect,
    "jenks": jenks.detect,
    "autocorrelation": autocorrelation.detect,
    "harmonic": harmonic.detect,
}
