"""The question about training a network."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from epochcast.analyzer.plugins.question import GpuName, Http, ModelFolder, NetworkQuestion, Option


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
