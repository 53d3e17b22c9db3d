"""Ways to predict one iteration: the paper's equations and ours; one file each."""

from __future__ import annotations

from typing import Protocol

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.communication import Cluster
from epochcast.analyzer.backends.distributed.graph import Graph
from epochcast.analyzer.backends.distributed.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.operator_time import OperatorTimes
from epochcast.analyzer.backends.distributed.prediction import Iteration
from epochcast.analyzer.backends.distributed.recipes import default, seed


class Graphs(Protocol):
    """Where the graph of a job comes from: :class:`..graphs.ModelGraphs`."""

    def graph(self, job: TrainingConfiguration) -> Graph:
        """The graph of one micro-batch on one tensor rank."""
        ...


class IterationRecipe(Protocol):
    """A recipe: ``times`` None means its own operator times, made with the coefficients."""

    def __call__(
        self,
        graphs: Graphs,
        job: TrainingConfiguration,
        cluster: Cluster,
        coefficients: Coefficients,
        times: OperatorTimes | None = None,
    ) -> Iteration:
        """Predict one iteration; raises InputError for what does not divide or the GPU cannot compute."""
        ...


RECIPES: dict[str, IterationRecipe] = {
    "default": default.predict,
    "seed": seed.predict,
}
"""By the names of the command line; other recipes may be added."""
