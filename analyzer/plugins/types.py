"""Types of fields that several questions have."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

GpuName = Annotated[str, Field(min_length=1, max_length=100, description="Any name that the GPU catalogue knows.")]

Name = Annotated[str, Field(min_length=1, max_length=200)]


def _no_file(name: str) -> str:
    if name.lower().endswith(".onnx"):
        raise ValueError(f"the network {name!r} looks like a file name; name one of torchvision or timm")
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
