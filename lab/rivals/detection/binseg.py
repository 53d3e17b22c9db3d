"""Binseg of `ruptures`: the best single change point, then the best in the two halves, and so on (binary segmentation).

Scott and Knott, "A cluster analysis method for grouping means in the analysis of variance", Biometrics 30 (1974).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.rivals.detection import change_points


def _search(ruptures: Any, cost: change_points.Cost, values: NDArray[np.float64]) -> Any:
    """Every sample is tried (`jump`), in Python."""
    return ruptures.Binseg(cost, min_size=change_points.SHORTEST, jump=1).fit(values)


detect = change_points.by_number("binseg", _search)
