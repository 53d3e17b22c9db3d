"""Detection methods to compare with; importing this makes them known to `epochcast.detector.detect`."""

from epochcast.detector import METHODS
from lab.rivals.detection import autocorrelation, binseg, dynp, harmonic, jenks, notebook, pelt

METHODS |= {
    "autocorrelation": autocorrelation.detect,
    "binseg": binseg.detect,
    "dynp": dynp.detect,
    "harmonic": harmonic.detect,
    "jenks": jenks.detect,
    "notebook": notebook.detect,
    "pelt": pelt.detect,
}
