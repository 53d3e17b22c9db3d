"""Rows of a label table with the graph of each: what predictors are fitted on and evaluated with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....regressor import Catalog
from ...errors import InputError
from .configuration import Configuration
from .graph.computation_graph import ComputationGraph
from .points import configurations
from .sample import Sample

Progress = Callable[[str], object]


@dataclass(frozen=True)
class LabelledSamples:
    """Measured or modelled configurations of one kind of labels.

    Attributes:
        points: columns as of ``points.py``, and ``nodes`` and ``edges`` of each graph; shape (n, …), index from 0.
        samples: graph and GPU of each row, n.
        left_out: why a network's rows are not among them, by the network.
        lacking: how many rows were left out.
    """

    points: pd.DataFrame
    samples: tuple[Sample, ...]
    left_out: Mapping[str, str]
    lacking: int

    @property
    def labels(self) -> str:
        """Where the occupancies come from, one of ``points.LABELS``."""
        return str(self.points["labels"].iloc[0])

    def occupancies(self, target: str) -> NDArray[np.float64]:
        """Labels, shape (n,), ratio 0..1; ``target`` is one of ``points.TARGETS``.

        Raises:
            InputError: a row has none above 0.
        """
        values = self.points[target].to_numpy(dtype=np.float64)
        if bad := np.flatnonzero(~(values > 0)).tolist():
            row = self.points.iloc[bad[0]]
            raise InputError(
                f"{row['network']} at batch {row['batch']} on {row['gpu']} has {target} occupancy {row[target]:g}; relative "
                "errors take one above 0: leave the row out or ask for another target"
            )
        return values

    def only(self, rows: NDArray[np.bool_]) -> LabelledSamples:
        """Those of a mask of shape (n,)."""
        kept = tuple(sample for sample, own in zip(self.samples, rows.tolist(), strict=True) if own)
        return LabelledSamples(self.points[rows].reset_index(drop=True), kept, self.left_out, self.lacking)


def labelled_samples(points: pd.DataFrame, catalog: Catalog, progress: Progress | None = None) -> LabelledSamples:
    """Build the graph of every network, once for all batch sizes.

    Args:
        points: columns as of ``points.py``.
        catalog: where their GPUs are.
        progress: told which network is at work.

    Raises:
        InputError: the labels are of several kinds, a GPU is unknown, or no network can be built.
    """
    of_one_kind(points)
    gpus = {str(name): catalog.resolve(str(name)) for name in points["gpu"].unique()}
    asked = list(configurations(points))
    graphs, left_out = _graphs(asked, progress)
    kept = np.array([one.one_sample in graphs for one in asked], dtype=bool)
    if not kept.any():
        network, reason = next(iter(left_out.items()), ("", "there is no row"))
        raise InputError(f"no network could be built; {network}: {reason}")
    samples = tuple(
        Sample(one, graphs[one.one_sample].at_batch(one.batch), gpus[str(gpu)])
        for one, gpu, own in zip(asked, points["gpu"], kept.tolist(), strict=True)
        if own
    )
    table = points[kept].reset_index(drop=True)
    table = table.assign(
        nodes=[len(sample.graph) for sample in samples], edges=[sample.graph.edges.shape[1] for sample in samples]
    )
    return LabelledSamples(table, samples, left_out, int((~kept).sum()))


def of_one_kind(points: pd.DataFrame, labels: str | None = None) -> pd.DataFrame:
    """The rows of one kind of labels, index from 0: values of several kinds do not mean the same.

    Args:
        points: columns as of ``points.py``.
        labels: the kind, one of ``points.LABELS``; None: all rows, which must be alike.

    Raises:
        InputError: there is no row of this kind, or rows are of several and none was chosen.
    """
    counts = points["labels"].value_counts()
    told = " and ".join(f"{count} rows {kind}" for kind, count in counts.items())
    if labels is None and len(counts) > 1:
        raise InputError(f"the labels are of several kinds, {told}; choose one by --labels")
    if labels not in (None, *counts.index):
        raise InputError(f"no row has labels {labels}; there are {told}")
    return points if labels is None else points[points["labels"] == labels].reset_index(drop=True)


def _graphs(
    asked: list[Configuration], progress: Progress | None
) -> tuple[dict[Configuration, ComputationGraph], dict[str, str]]:
    """The graphs of what can be built, by :attr:`Configuration.one_sample`; why the others cannot, by network."""
    from .graph_of import graph_of  # loads torch

    graphs: dict[Configuration, ComputationGraph] = {}
    left_out: dict[str, str] = {}
    different = list(dict.fromkeys(one.one_sample for one in asked))
    for done, one in enumerate(different):
        if progress is not None:
            progress(f"graph {done + 1} of {len(different)}: {one.network}")
        try:
            graph = graph_of(one)
            if not len(graph):
                raise InputError("it launches no kernel")
            graphs[one] = graph
        except InputError as error:
            left_out.setdefault(one.network, str(error))
    return graphs, left_out
