"""What predictions and recommendations rest on: the GPU catalogue and the price table."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from ...instances import Instance
from ..parts import Served
from ..problems import answers
from ..questions import GpuName

router = APIRouter(prefix="/api/v1", tags=["Tables"])


class CatalogGpus(BaseModel):
    """GPUs that can be predicted for."""

    gpus: list[dict[str, Any]] = Field(
        description="Each with name, aliases and figures in base units, as `epochcast gpus --json`."
    )


class PriceAnswer(BaseModel):
    """An instance and its price."""

    instance: str
    cloud: str
    region: str
    gpu: str
    gpu_count: int
    usd_per_hour: float | None
    spot_usd_per_hour: float | None
    vcpus: float | None
    memory_bytes: float | None
    source: str
    date: date


class Prices(BaseModel):
    """Everything that can be recommended."""

    prices: list[PriceAnswer]


@router.get("/catalog/gpus", operation_id="listCatalogGpus", summary="GPUs that can be predicted for")
def catalog_gpus(served: Served) -> CatalogGpus:
    """Every GPU model of the catalogue, with the names it goes by."""
    return CatalogGpus(gpus=[asdict(gpu) for gpu in served.catalog.values()])


@router.get("/prices", operation_id="listPrices", summary="What can be rented, and its price", responses=answers(422))
def prices(
    served: Served,
    gpu: Annotated[GpuName | None, Query(description="Only instances with this GPU, by any of its names.")] = None,
    cloud: Annotated[GpuName | None, Query(description="Only of this cloud.")] = None,
) -> Prices:
    """Every instance of the price table, with who published the price and when."""
    name = None if gpu is None else served.catalog.resolve(gpu).name
    found = [one for one in served.instances if name in (None, one.gpu) and cloud in (None, one.cloud)]
    return Prices(prices=[_answer(one) for one in found])


def _answer(one: Instance) -> PriceAnswer:
    return PriceAnswer(
        instance=one.name,
        cloud=one.cloud,
        region=one.region,
        gpu=one.gpu,
        gpu_count=one.count,
        usd_per_hour=one.usd_per_hour,
        spot_usd_per_hour=one.spot_usd_per_hour,
        vcpus=one.vcpus,
        memory_bytes=one.memory,
        source=one.source,
        date=one.date,
    )
