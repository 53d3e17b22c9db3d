"""What predictions and recommendations rest on: the GPU catalogue and the price table."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from epochcast.analyzer.jobs.prices import Instance, is_stale, price_age
from epochcast.analyzer.jobs.questions import GpuName
from epochcast.analyzer.service.parts import Served
from epochcast.analyzer.service.problems import answers

router = APIRouter(prefix="/api/v1", tags=["Tables"])


class CatalogGpus(BaseModel):
    """All GPUs of the catalogue."""

    gpus: list[dict[str, Any]] = Field(
        description="Each with its name, its aliases and its figures in base units, as `epochcast gpus --json` prints them."
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
    price_stale: bool = Field(description="Older than a year: ranked after all newer prices.")


class Prices(BaseModel):
    """All instances that can be recommended."""

    prices: list[PriceAnswer]


@router.get("/catalog/gpus", operation_id="listCatalogGpus", summary="The GPU catalogue")
def catalog_gpus(served: Served) -> CatalogGpus:
    """List every GPU that predictions cover, with its other names."""
    return CatalogGpus(gpus=[asdict(gpu) for gpu in served.advisor.catalog.values()])


@router.get("/prices", operation_id="listPrices", summary="Prices of instances", responses=answers(422))
def prices(
    served: Served,
    gpu: Annotated[GpuName | None, Query(description="Only instances with this GPU (name or alias).")] = None,
    cloud: Annotated[GpuName | None, Query(description="Only instances of this cloud.")] = None,
) -> Prices:
    """List every instance in the price table, with the source and the date of its price."""
    name = None if gpu is None else served.advisor.catalog.resolve(gpu).name
    matching = [
        instance for instance in served.advisor.instances if name in (None, instance.gpu) and cloud in (None, instance.cloud)
    ]
    return Prices(prices=[_answer(instance) for instance in matching])


def _answer(instance: Instance) -> PriceAnswer:
    same = ("cloud", "region", "gpu", "usd_per_hour", "spot_usd_per_hour", "vcpus", "source", "date")
    fields = {name: getattr(instance, name) for name in same}
    fields |= {"instance": instance.name, "gpu_count": instance.count, "memory_bytes": instance.memory}
    return PriceAnswer(price_stale=is_stale(instance, price_age.today()), **fields)
