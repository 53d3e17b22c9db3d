"""Ways to predict one iteration: the paper's equations, ours, and what the paper compares itself with; one file each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ..coefficients import Coefficients
from ..communication import Cluster
from ..graph import Graph
from ..job import TrainingConfiguration
from ..operator_time import OperatorTimes
from ..prediction import Iteration
from . import default, neusight_style, roofline, seed, vtrain_style


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


RECIPES: Mapping[str, IterationRecipe] = {
    "default": default.predict,
    "seed": seed.predict,
    "roofline": roofline.predict,
    "neusight-style": neusight_style.predict,
    "vtrain-style": vtrain_style.predict,
}
"""By the names of the command line."""
