"""The precision-blind model that the paper calls vTrain: FP32 operators, every parallelism and its communication.

Section II-B and Fig. 2: "its prediction is based on a precision (FP32)". vTrain itself (Bae et al. 2024) profiles any
precision that it runs in; the name follows the paper's reading of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from epochcast.analyzer.backends.distributed.answer import Iteration
from epochcast.analyzer.backends.distributed.communication.cluster import Cluster
from epochcast.analyzer.backends.distributed.fitted_model import Coefficients
from epochcast.analyzer.backends.distributed.iteration import iteration
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from lab.rivals.distributed.learned import predict_learned

if TYPE_CHECKING:
    from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs


def predict(graphs: ModelGraphs, job: TrainingConfiguration, cluster: Cluster, coefficients: Coefficients) -> Iteration:
    """The default's answer for the same job in FP32."""
    return predict_learned(iteration, graphs, replace(job, precision="fp32"), cluster, coefficients)
