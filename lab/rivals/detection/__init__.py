"""Detection methods to compare with; importing this makes them known to `epochcast.detector.detect`."""

from epochcast.detector import METHODS
from lab.rivals.detection import autocorrelation, harmonic, notebook

METHODS.register("notebook", notebook.detect)
METHODS.register("autocorrelation", autocorrelation.detect)
METHODS.register("harmonic", harmonic.detect)
