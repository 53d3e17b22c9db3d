"""Detection methods to compare with; importing this makes them known to `epochcast.detector.detect`."""

from epochcast.detector import METHODS
from lab.rivals.detection import autocorrelation, binseg, harmonic, jenks

METHODS |= {
    "autocorrelation": autocorrelation.detect,
    "binseg": binseg.detect,
    "harmonic": harmonic.detect,
    "jenks": jenks.detect,
}
