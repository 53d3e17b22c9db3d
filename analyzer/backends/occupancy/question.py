"""The question about training a network, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, model_validator

from epochcast.analyzer.backends.occupancy.answer import WITHIN, BestBatch, Filled, OccupancyAnswer
from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration, Sample
from epochcast.analyzer.backends.occupancy.graph_of import graph_of
from epochcast.analyzer.backends.occupancy.modelled_kernels.kernels_of import notes_on, occupancy_of
from epochcast.analyzer.backends.occupancy.networks import SIZES, complete
from epochcast.analyzer.backends.occupancy.predictor import OccupancyPredictor
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins.question import Http, ModelFolder, NetworkQuestion, Option
from epochcast.analyzer.plugins.types import GpuName
from epochcast.regressor import Catalog, Gpu

USUAL_BATCH = 32

LARGEST = 4096
"""Batches beyond it are not tried: there the GPU's memory does not bound them."""


class OccupancyQuestion(NetworkQuestion):
    """A network with its sizes, the GPUs that it would train on, and batches."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"network": "resnet50", "gpus": ["A100 SXM4 40GB", "T4"], "batches": [64]},
                {
                    "network": "lstm",
                    "gpus": ["L4"],
                    "sequence": 128,
                    "hidden": 512,
                    "layers": 2,
                    "precision": "fp16",
                    "sweep": True,
                },
            ]
        }
    )

    model: Annotated[ModelFolder, Field(description="Folder of a fitted model.")] = None
    gpus: Annotated[
        list[GpuName],
        Http(),
        Option("--gpu", "NAME", default="the model's"),
        Field(default_factory=list, max_length=32, description="GPU to predict for."),
    ]
    batches: Annotated[
        list[Annotated[int, Field(ge=1, le=2**16)]],
        Http(),
        Option("--batch", "N", default="32"),
        Field(default_factory=list, max_length=32, description="Samples in a step."),
    ]
    sweep: Annotated[
        bool,
        Http(),
        Option("--sweep-batches"),
        Field(description="Try all powers of two that fit in memory, and name the smallest batch that fills the GPU."),
    ] = False
    precision: Annotated[Literal["fp32", "fp16", "bf16"], Http(), Field(description="Precision of the arithmetic.")] = "fp32"
    channels: Annotated[
        int | None,
        Http(only=True),
        Field(ge=1, le=256, description="Channels of the image. Usual where not given."),
    ] = None
    image_size: Annotated[
        int | None, Http(), Option(metavar="PIXELS"), Field(ge=1, le=4096, description="Side of the square images in pixels.")
    ] = None
    sequence: Annotated[
        int | None,
        Http(),
        Option(metavar="N"),
        Field(ge=1, le=2**16, description="Length of the sequence: tokens, or steps of a recurrent network."),
    ] = None
    hidden: Annotated[
        int | None, Http(), Option(metavar="N"), Field(ge=1, le=2**13, description="Width of a recurrent network.")
    ] = None
    layers: Annotated[
        int | None, Http(), Option(metavar="N"), Field(ge=1, le=16, description="Number of layers of a recurrent network.")
    ] = None

    @model_validator(mode="after")
    def _of_batches_or_all(self) -> Self:
        if self.batches and self.sweep:
            raise ValueError("a sweep tries all batches that memory holds; leave out the batch")
        return self

    @property
    def sizes(self) -> dict[str, int]:
        """Those that were given."""
        return {name: getattr(self, name) for name in SIZES if getattr(self, name)}


class _Network:
    """A network with its graph at one batch."""

    def __init__(self, question: OccupancyQuestion, predictor: OccupancyPredictor, catalog: Catalog) -> None:
        self._predictor, self._catalog = predictor, catalog
        sizes = NetworkConfiguration(question.network, 1, precision=question.precision, **question.sizes)
        self.configuration = complete(sizes)
        self.graph = graph_of(self.configuration).in_training()

    def on(self, gpu: Gpu, batches: Sequence[int]) -> tuple[list[Sample], list[Filled]]:
        """A GPU at these batches."""
        samples = [Sample(replace(self.configuration, batch=batch), self.graph.at_batch(batch), gpu) for batch in batches]
        rows = []
        for sample, training in zip(samples, self._predictor.predict(samples, self._catalog), strict=True):
            modelled = occupancy_of(sample.graph, gpu, sample.configuration.precision)
            rows.append(Filled(gpu=gpu.name, batch=sample.configuration.batch, training=training, modelled=modelled))
        return samples, rows

    def fitting(self, gpu: Gpu) -> list[int]:
        """The batches of powers of two that the GPU's memory holds."""

        def memory_of(batch: int) -> float:
            return self.on(gpu, [batch])[1][0].memory

        batches = batches_that_fit(memory_of, gpu.memory)
        if not batches:
            raise InputError(
                f"{self.configuration.network} does not fit {gpu.name} even at batch 1: it takes about "
                f"{memory_of(1) / 2**30:.1f} GiB of {gpu.memory / 2**30:.1f} GiB; take a GPU with more memory"
            )
        return batches


def answer(question: OccupancyQuestion, predictor: OccupancyPredictor, catalog: Catalog) -> OccupancyAnswer:
    """Answer from measured trainings, next to launches as they are modelled.

    Args:
        question: a network, GPUs and batches.
        predictor: fitted on trainings.
        catalog: GPUs.

    Raises:
        InputError: the network is unknown or cannot be exported, has no kernels, or does not fit.
    """
    gpus = list({gpu.name: gpu for gpu in map(catalog.resolve, question.gpus or predictor.fitted.gpus)}.values())
    network = _Network(question, predictor, catalog)
    usual = sorted(set(question.batches or [USUAL_BATCH]))
    answered = [network.on(gpu, network.fitting(gpu) if question.sweep else usual) for gpu in gpus]
    samples = [sample for own, _ in answered for sample in own]
    rows = [row for _, own in answered for row in own]
    fallback = [sample for sample, row in zip(samples, rows, strict=True) if row.training.sm_occupancy is None]
    sizes = {name: getattr(network.configuration, name) for name in SIZES}
    return OccupancyAnswer(
        network=_shown(network.configuration.network),
        sizes={name: size for name, size in sizes.items() if size},
        precision=network.configuration.precision,
        nodes=len(network.graph),
        edges=network.graph.edges.shape[1],
        unknown_operators=dict(network.graph.unknown),
        model=predictor.fitted,
        predictions=rows,
        batches=[_best(own) for _, own in answered] if question.sweep else [],
        notes=[*predictor.notes(samples, catalog), *notes_on(fallback)],
    )


def _shown(network: str) -> str:
    """Names as they are, files without their folders, which the answer must not reveal."""
    return ",".join(Path(part).name if part.endswith(".onnx") else part for part in network.split(","))


def batches_that_fit(memory_of: Callable[[int], float], capacity: float) -> list[int]:
    """Powers of two from 1 on whose memory, bytes by batch and growing with it, is within the capacity; none if 1 is beyond."""
    powers = (2**exponent for exponent in range(LARGEST.bit_length()))
    return list(takewhile(lambda batch: memory_of(batch) <= capacity, powers))


def best_batch(gpu: str, batches: NDArray[np.int_], occupancies: NDArray[np.float64]) -> BestBatch:
    """Look through occupancies, shape (n,), of batches in ascending order, shape (n,) (section VI-A of the paper)."""
    best, largest = float(occupancies.max()), int(batches[-1])
    return BestBatch(
        gpu=gpu,
        highest=best,
        highest_at=int(batches[occupancies.argmax()]),
        smallest=int(batches[occupancies >= best * (1 - WITHIN)][0]),
        largest=largest,
        bound_by_memory=largest < LARGEST,
    )


def _best(rows: Sequence[Filled]) -> BestBatch:
    return best_batch(rows[0].gpu, np.array([row.batch for row in rows]), np.array([row.occupancy for row in rows]))
