"""What may be asked about a network's occupancy, and its whole answer: the command line prints it, the service gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ....regressor import Catalog, Gpu
from ...errors import InputError
from .batch_sweep import LARGEST, batches_that_fit, best_batch
from .configuration import Configuration
from .graph.computation_graph import ComputationGraph
from .graph_of import graph_of
from .modelled_kernels import ModelledStep
from .modelled_launches import modelled_notes, modelled_step
from .networks import complete
from .predictor import Predictor, Training
from .sample import Sample

USUAL_BATCH = 32


@dataclass(frozen=True)
class Question:
    """A network with its sizes, on GPUs and at batches.

    Attributes:
        sizes: the network, its precision, and those of its sizes that are not the usual ones; the batch does not count.
        gpus: names; none: those that the predictor was fitted on.
        batches: samples of several steps; none: 32.
        sweep: whether all batches are asked for that memory holds, instead of ``batches``.

    Raises:
        InputError: batches with a sweep.
    """

    sizes: Configuration
    gpus: Sequence[str] = ()
    batches: Sequence[int] = ()
    sweep: bool = False

    def __post_init__(self) -> None:
        if self.batches and self.sweep:
            raise InputError("a sweep tries all batches that memory holds; leave out the batch")


@dataclass(frozen=True)
class _Row:
    """A network on a GPU at a batch: its training as measured ones foretell it, and its inference as launches are modelled."""

    sample: Sample
    training: Training
    modelled: ModelledStep

    @property
    def occupancy(self) -> float:
        """SM occupancy of the training where that is known, else of the modelled launches."""
        return self.training.sm_occupancy.value if self.training.sm_occupancy else self.modelled.time_mean

    @property
    def memory(self) -> float:
        """Bytes; of the training where that is known, else of the modelled inference."""
        return self.training.peak_memory.value if self.training.peak_memory else self.modelled.memory_bytes


class _Network:
    """A network with its graph at one batch."""

    def __init__(self, question: Question, predictor: Predictor, catalog: Catalog, cache: bool) -> None:
        self._predictor, self._catalog = predictor, catalog
        if question.sizes.network.endswith(".onnx"):
            from .graph.from_onnx import graph_of_onnx

            self.configuration = question.sizes
            graph = graph_of_onnx(Path(question.sizes.network), question.sizes)
        else:
            self.configuration = complete(question.sizes)
            graph = graph_of(self.configuration, cache)
        self.graph: ComputationGraph = graph.in_training()

    def on(self, gpu: Gpu, batches: Sequence[int]) -> list[_Row]:
        """Rows of a GPU, one per batch."""
        samples = [Sample(replace(self.configuration, batch=batch), self.graph.at_batch(batch), gpu) for batch in batches]
        trainings = self._predictor.predict(samples, self._catalog)
        steps = map(modelled_step, samples)
        return [_Row(*parts) for parts in zip(samples, trainings, steps, strict=True)]

    def fitting(self, gpu: Gpu) -> list[_Row]:
        """Rows of the batches of powers of two that the GPU's memory holds."""
        tried: dict[int, _Row] = {}

        def memory_of(batch: int) -> float:
            (tried[batch],) = self.on(gpu, [batch])
            return tried[batch].memory

        batches = batches_that_fit(memory_of, gpu.memory)
        if not batches:
            raise InputError(
                f"{self.configuration.network} does not fit {gpu.name} even at batch 1: it takes about "
                f"{memory_of(1) / 2**30:.1f} GiB of {gpu.memory / 2**30:.1f} GiB; take a GPU with more memory"
            )
        return [tried[batch] for batch in batches]


def answer(question: Question, predictor: Predictor, catalog: Catalog, *, cache: bool = True) -> dict[str, Any]:
    """The answer as JSON has it; None where a figure has no value.

    Args:
        question: a network, GPUs and batches.
        predictor: fitted on trainings.
        catalog: GPUs.
        cache: whether graphs are kept in the user's cache folder, see :func:`.graph_of.graph_of`.

    Raises:
        InputError: the network is unknown or cannot be exported, has no kernels, or does not fit.
    """
    names = question.gpus or predictor.gpus
    gpus = list({gpu.name: gpu for gpu in map(catalog.resolve, names)}.values())
    network = _Network(question, predictor, catalog, cache)
    if question.sweep:
        groups = [network.fitting(gpu) for gpu in gpus]
    else:
        groups = [network.on(gpu, sorted(set(question.batches or [USUAL_BATCH]))) for gpu in gpus]
    rows = [row for group in groups for row in group]
    samples = [row.sample for row in rows]
    fallback = [row.sample for row in rows if row.training.sm_occupancy is None]
    sizes = asdict(network.configuration)
    sizes = {name: size for name, size in sizes.items() if size and name not in ("network", "batch", "precision")}
    return {
        "network": network.configuration.network,
        "sizes": sizes,
        "precision": network.configuration.precision,
        "nodes": len(network.graph),
        "edges": network.graph.edges.shape[1],
        "unknown_operators": dict(network.graph.unknown),
        "model": fitted_json(predictor),
        "predictions": [_row_json(row) for row in rows],
        "batches": [_best(group) for group in groups] if question.sweep else [],
        "notes": [*predictor.notes(samples, catalog), *modelled_notes(fallback)],
    }


def fitted_json(predictor: Predictor) -> dict[str, Any]:
    """What a predictor rests on; ``errors`` by label are :class:`.predictor.Errors`."""
    return {
        "model": predictor.model,
        "settings": predictor.settings,
        "gpus": list(predictor.gpus),
        "rows": predictor.rows,
        "errors": {label: asdict(errors) for label, errors in predictor.errors.items()},
    }


def _row_json(row: _Row) -> dict[str, Any]:
    gpu = row.sample.gpu
    modelled = asdict(row.modelled) | {"fits": row.modelled.memory_bytes <= gpu.memory}
    return {"gpu": gpu.name, "batch": row.sample.configuration.batch, "training": asdict(row.training), "modelled": modelled}


def _best(group: Sequence[_Row]) -> Mapping[str, Any]:
    """What a sweep over batches of one GPU found."""
    best = best_batch(np.array([row.sample.configuration.batch for row in group]), np.array([row.occupancy for row in group]))
    return {"gpu": group[0].sample.gpu.name, **asdict(best), "bound_by_memory": best.largest < LARGEST}
