"""One measured row of the table of points, with the launches that its occupancies were calculated from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from ..configuration import Configuration
from ..launch.kernel_table import Aggregate
from ..networks import family
from ..points import TARGETS


@dataclass(frozen=True)
class Measured:
    """What a bench gives for a configuration and a kind of labels.

    Attributes:
        row: columns of ``points_file.HEADER``.
        kernels: a kernel table; None where the launches are only modelled.
    """

    row: Mapping[str, Any]
    kernels: pd.DataFrame | None = None


def label_row(configuration: Configuration, gpu: str, labels: str, occupancy: Aggregate, launches: float) -> dict[str, Any]:
    """The columns that every row has.

    Raises:
        ValueError: the occupancies are not known.
    """
    ratios = {target: float(getattr(occupancy, target)) for target in TARGETS}
    if any(not 0 <= value <= 1 for value in ratios.values()):
        raise ValueError("no occupancy could be calculated")
    own = {**asdict(configuration), "family": family(configuration.network)}
    return {**own, "gpu": gpu, "labels": labels, **ratios, "kernels": int(launches)}
