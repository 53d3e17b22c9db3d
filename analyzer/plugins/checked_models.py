"""What questions and answers of the built-in backends have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class Asked(BaseModel):
    """A question, or a part of one: numbers as numbers (no text for one), nothing that is not known."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class Told(BaseModel):
    """An answer, or a part of one; a figure without a value is null."""

    model_config = ConfigDict(extra="forbid")


class Rented(Told):
    """The cheapest way to rent the devices of an answer, on demand and whole instances."""

    instance: str
    cloud: str
    region: str
    gpu: str
    gpus_each: int
    count: int
    usd_per_hour: Annotated[float, Field(description="Of all instances.")]
    price_of: Annotated[str, Field(description="Date of the price.")]


GpuName = Annotated[str, Field(min_length=1, max_length=100, description="Any name that the GPU catalogue knows.")]

Name = Annotated[str, Field(min_length=1, max_length=200)]


def _no_file(name: str) -> str:
    if name.lower().endswith(".onnx"):
        raise ValueError(f"the network {name!r} is called like a file; send the file's content as onnx")
    return name


LibraryName = Annotated[
    str,
    Field(
        # No slash and no dots in a row, which a path has; a colon only after a library, as an import path has one too.
        pattern=r"^((torchvision|timm):)?[A-Za-z0-9_]+([.-][A-Za-z0-9_]+)*$",
        max_length=100,
        description="A network of torchvision or timm by its name there, or torchvision:NAME or timm:NAME.",
    ),
    AfterValidator(_no_file),
]
"""A network as it may be named over HTTP: a name of a library, never something that runs code, reads a file or asks a host."""
