"""What may be asked about a network's occupancy, and its whole answer: the command line prints it, the service gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ....regressor import Catalog, Gpu
from ...errors import InputError
from .answer import Asked, answer_json
from .batch_sweep import batches_that_fit
from .configuration import Configuration
from .graph.computation_graph import ComputationGraph
from .modelled_launches import modelled_step
from .networks import complete
from .predictor import Predictor
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


def answer(question: Question, predictor: Predictor | None, catalog: Catalog, *, cache: bool = True) -> dict[str, Any]:
    """The answer as JSON has it; NaN where a figure has no value.

    Args:
        question: what is asked.
        predictor: fitted; None: launches as they are modelled.
        catalog: GPUs.
        cache: whether graphs are kept in the user's cache folder, see :func:`.graph_of.graph_of`.

    Raises:
        InputError: the network is unknown or cannot be exported, has no kernels, or does not fit; no GPU is named.
    """
    chosen = _gpus(question.gpus, predictor, catalog)
    asked = _network(question.sizes, cache)
    if not len(asked.graph):
        name = question.sizes.network
        raise InputError(f"{name} launches no kernel, so it has no occupancy; give a network that computes something")
    if question.sweep:
        groups = [_fitting(asked, gpu) for gpu in chosen]
    else:
        groups = [[asked.on(gpu, batch) for batch in sorted(set(question.batches or [USUAL_BATCH]))] for gpu in chosen]
    return answer_json(groups, predictor, swept=question.sweep)


@dataclass(frozen=True)
class _Network:
    """A network with its graph at one batch."""

    configuration: Configuration
    graph: ComputationGraph

    def on(self, gpu: Gpu, batch: int) -> Asked:
        """On a GPU at another batch, with the launches that are expected there."""
        sample = Sample(replace(self.configuration, batch=batch), self.graph.at_batch(batch), gpu)
        return Asked(sample, modelled_step(sample))


def _network(sizes: Configuration, cache: bool) -> _Network:
    if sizes.network.endswith(".onnx"):
        from .graph.from_onnx import graph_of_onnx

        return _Network(sizes, graph_of_onnx(Path(sizes.network), sizes))
    from .graph_of import graph_of

    whole = complete(sizes)
    return _Network(whole, graph_of(whole, cache))


def _gpus(names: Sequence[str], predictor: Predictor | None, catalog: Catalog) -> list[Gpu]:
    """Those asked for; those that the model was fitted on where none is."""
    if not names and predictor is None:
        raise InputError(
            "no GPU is named, and no model that was fitted on one; name a GPU of the catalogue (`epochcast gpus` lists them)"
        )
    wanted = names or (predictor.fitted_on.gpus if predictor is not None else ())
    return list({gpu.name: gpu for gpu in (catalog.resolve(name) for name in wanted)}.values())


def _fitting(asked: _Network, gpu: Gpu) -> list[Asked]:
    """Batches of powers of two that the GPU's memory holds."""
    tried: dict[int, Asked] = {}

    def memory_of(batch: int) -> float:
        tried[batch] = asked.on(gpu, batch)
        return tried[batch].step.memory_bytes

    batches = batches_that_fit(memory_of, gpu.memory)
    if not batches:
        raise InputError(
            f"{asked.configuration.network} does not fit {gpu.name} even at batch 1: it takes about "
            f"{memory_of(1) / 2**30:.1f} GiB of {gpu.memory / 2**30:.1f} GiB; take a GPU with more memory"
        )
    return [tried[batch] for batch in batches]
