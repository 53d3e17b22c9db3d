"""The question about training a network, and how it is answered."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from epochcast.analyzer.backends.occupancy.answer import WITHIN, Filled, OccupancyAnswer
from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration, Sample
from epochcast.analyzer.backends.occupancy.networks import SIZES, complete, graph_of
from epochcast.analyzer.backends.occupancy.predictor import OccupancyPredictor
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins.question import GpuName, Http, ModelFolder, NetworkQuestion, Option
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
                {"network": "lstm", "gpus": ["L4"], "sequence": 128, "precision": "fp16", "sweep": True},
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
    image_size: Annotated[
        int | None, Http(), Option(metavar="PIXELS"), Field(ge=1, le=4096, description="Side of the square images in pixels.")
    ] = None
    sequence: Annotated[
        int | None,
        Http(),
        Option(metavar="N"),
        Field(ge=1, le=2**16, description="Length of the sequence: tokens, or steps of a recurrent network."),
    ] = None

    @model_validator(mode="after")
    def _of_batches_or_all(self) -> Self:
        if self.batches and self.sweep:
            raise ValueError("a sweep tries all batches that memory holds; leave out the batch")
        return self


def answer(question: OccupancyQuestion, predictor: OccupancyPredictor, catalog: Catalog) -> OccupancyAnswer:
    """Answer from measured trainings, and where there are none from launches and shapes.

    Args:
        question: a network, GPUs and batches.
        predictor: fitted on trainings.
        catalog: GPUs.

    Raises:
        InputError: the network is unknown or cannot be exported, has no kernels, or does not fit.
    """
    gpus = list({gpu.name: gpu for gpu in map(catalog.resolve, question.gpus or predictor.fitted.gpus)}.values())
    sizes = {"image_size": question.image_size or 0, "sequence": question.sequence or 0}
    network = complete(NetworkConfiguration(question.network, 1, precision=question.precision, **sizes))
    graph = graph_of(network).in_training()
    samples: list[Sample] = []
    rows: list[Filled] = []
    smallest = {}
    for gpu in gpus:

        def fill(batch: int, gpu: Gpu = gpu) -> tuple[Sample, Filled]:
            sample = Sample(replace(network, batch=batch), graph.at_batch(batch), gpu)
            return sample, predictor.predict(sample, catalog)

        if question.sweep:
            powers = (2**exponent for exponent in range(LARGEST.bit_length()))
            own = list(takewhile(lambda filled: filled[1].peak_memory.value <= filled[0].gpu.memory, map(fill, powers)))
            if not own:
                raise InputError(
                    f"{network.network} does not fit {gpu.name} even at batch 1: it takes about "
                    f"{fill(1)[1].peak_memory.value / 2**30:.1f} GiB of {gpu.memory / 2**30:.1f} GiB; "
                    "take a GPU with more memory"
                )
            highest = max(row.sm_occupancy.value for _, row in own)
            smallest[gpu.name] = next(row.batch for _, row in own if row.sm_occupancy.value >= highest * (1 - WITHIN))
        else:
            own = [fill(batch) for batch in sorted(set(question.batches or [USUAL_BATCH]))]
        samples += [sample for sample, _ in own]
        rows += [row for _, row in own]
    return OccupancyAnswer(
        network=Path(network.network).name if network.network.endswith(".onnx") else network.network,
        sizes={name: size for name in SIZES if (size := getattr(network, name))},
        precision=network.precision,
        nodes=len(graph),
        unknown_operators=dict(graph.unknown),
        model=predictor.fitted,
        predictions=rows,
        smallest=smallest,
        notes=predictor.notes(samples, catalog),
    )
