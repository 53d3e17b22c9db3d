"""What predictions and recommendations rest on: the GPU catalogue and the price table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query

from epochcast.analyzer.jobs.prices import Instance
from epochcast.analyzer.jobs.questions import GpuName
from epochcast.analyzer.service.parts import Served
from epochcast.analyzer.service.problems import answers

router = APIRouter(prefix="/api/v1", tags=["Tables"])


@router.get("/catalog/gpus", operation_id="listCatalogGpus", summary="The GPU catalogue")
def catalog_gpus(served: Served) -> dict[str, list[dict[str, Any]]]:
    """List every GPU that predictions cover, with its other names and its figures in base units, under ``gpus``."""
    return {"gpus": [asdict(gpu) for gpu in served.advisor.catalog.values()]}


@router.get("/prices", operation_id="listPrices", summary="Prices of instances", responses=answers(422))
def prices(
    served: Served,
    gpu: Annotated[GpuName | None, Query(description="Only instances with this GPU (name or alias).")] = None,
    cloud: Annotated[GpuName | None, Query(description="Only instances of this cloud.")] = None,
) -> dict[str, list[Instance]]:
    """List every instance that can be recommended under ``prices``, with the source and the date of its price."""
    name = None if gpu is None else served.advisor.catalog.resolve(gpu).name
    matching = (each for each in served.advisor.instances if name in (None, each.gpu) and cloud in (None, each.cloud))
    return {"prices": list(matching)}
