"""GPUs that were seen, and their epochs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from epochcast.analyzer.jobs.watched import WatchedGpu
from epochcast.analyzer.service.listing import gpu_place, gpus_of, list_page
from epochcast.analyzer.service.parts import Parts, Served
from epochcast.analyzer.service.problems import answers
from epochcast.analyzer.service.routes.query import After, Limit, Node, Words, next_page
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, State

router = APIRouter(prefix="/api/v1/gpus", tags=["GPUs"])

Uuid = Annotated[str, Path(max_length=200, description="UUID of the GPU, from `/api/v1/gpus`.", examples=["GPU-8f2c1f0a-0"])]


class Gpus(BaseModel):
    """GPUs by node."""

    gpus: list[WatchedGpu]
    total: int = Field(description="GPUs that match, on all pages.")
    next: str | None = Field(description="Path and query of the next page; null on the last one.")


@router.get("", operation_id="listGpus", summary="All GPUs", responses=answers(422))
def gpus(
    request: Request,
    served: Served,
    node: Node = None,
    job: Annotated[str | None, Query(max_length=200, description="Only GPUs of this job, by its id.")] = None,
    state: Annotated[State | None, Query(description="Only GPUs whose detector is in this state.")] = None,
    q: Words = "",
    limit: Limit = 100,
    after: After = "",
) -> Gpus:
    """List the GPUs that a telemetry source reported within `keep_days`, with what their detectors found."""
    matching = gpus_of(served.analysis.snapshot, node=node, job=job, state=state, q=q)
    page = list_page(matching, gpu_place, after=after, limit=limit)
    return Gpus(gpus=list(page.items), total=page.total, next=next_page(request, page.next))


@router.get("/{uuid:path}/epochs", operation_id="listEpochs", summary="Epochs of a GPU", responses=answers(404, 422))
def epochs(
    served: Served,
    uuid: Uuid,
    since: Annotated[
        float | None,
        Query(allow_inf_nan=False, description="Only epochs that ended after this [unix s].", examples=[1.7e9]),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="At most this many, the newest.")] = 100,
    profiles: Annotated[bool, Query(description="Return the profile of each epoch alone too.")] = False,
) -> dict[str, list[EpochRecord]]:
    """List the epochs that have ended under ``epochs``, oldest first, of all jobs of the GPU: ``job_since`` says of which."""
    _known(served, uuid)
    return {"epochs": served.store.epochs(uuid, since=since, limit=limit, profiles=profiles)}


@router.get("/{uuid:path}", operation_id="getGpu", summary="One GPU", responses=answers(404, 422))
def gpu(served: Served, uuid: Uuid) -> WatchedGpu:
    """Return what the detector of one GPU found."""
    return _known(served, uuid)


def _known(served: Parts, uuid: str) -> WatchedGpu:
    try:
        return served.analysis.snapshot.gpus[uuid]
    except KeyError:
        raise HTTPException(404, f"no GPU {uuid!r:.220} was seen; /api/v1/gpus lists those that were") from None
