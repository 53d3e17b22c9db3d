"""All-reduces within a node that were measured: our fits of public ones, which are shipped."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field


class AllReduceFit(BaseModel):
    """Latency and bandwidth of all-reduces over ``gpus`` GPUs: ``latency + 2 (gpus - 1)/gpus nbytes / bandwidth`` seconds.

    ``latency`` is of the whole all-reduce; ``bandwidth`` is what each GPU sends (NCCL's bus bandwidth).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    gpus: int = Field(ge=2)
    latency: float = Field(ge=0)
    bandwidth: float = Field(gt=0)

    def seconds(self, nbytes: ArrayLike) -> NDArray[np.float64]:
        """Seconds of all-reduces of ``nbytes``."""
        sent = 2 * (self.gpus - 1) / self.gpus * np.asarray(nbytes, dtype=np.float64)
        return np.asarray(self.latency + sent / self.bandwidth)


@cache
def _shipped() -> dict[str, dict[int, AllReduceFit]]:
    tables = tomllib.loads((files(__package__) / "measured_links.toml").read_text("utf-8"))["measured"]
    return {gpu: {fit["gpus"]: AllReduceFit(**fit) for fit in table["fit"]} for table in tables for gpu in table["gpus"]}


def fitted_all_reduces(gpu: str) -> dict[int, AllReduceFit]:
    """Our fits of public measurements for this GPU of the catalogue, by number of GPUs; empty where there are none."""
    return _shipped().get(gpu, {})
