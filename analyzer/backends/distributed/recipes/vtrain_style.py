"""The precision-blind model that the paper calls vTrain: FP32 operators, every parallelism and its communication.

Section II-B and Fig. 2: "its prediction is based on a precision (FP32)". vTrain itself (Bae et al. 2024) profiles any
precision that it runs in; the name follows the paper's reading of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..coefficients import Coefficients
from ..communication import Cluster
from ..job import TrainingConfiguration
from ..operator_time import OperatorTimes
from ..prediction import Iteration
from . import default

if TYPE_CHECKING:
    from . import Graphs


def predict(
    graphs: Graphs, job: TrainingConfiguration, cluster: Cluster, coefficients: Coefficients, times: OperatorTimes | None = None
) -> Iteration:
    """The default's answer for the same job in FP32; ``times`` must be of FP32 operators."""
    return default.predict(graphs, replace(job, precision="fp32"), cluster, coefficients, times)
