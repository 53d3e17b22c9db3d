"""GPUs that were seen, and their epochs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from ...answers.answer_schema import GpuAnswer
from ...telemetry.gpu_report import EpochRecord
from ..parts import Parts, Served
from ..problems import answers
from ..schema import EpochAnswer

router = APIRouter(prefix="/api/v1/gpus", tags=["GPUs"])

Uuid = Annotated[str, Path(max_length=200, description="UUID of the GPU, from `/api/v1/gpus`.", examples=["GPU-8f2c1f0a-0"])]


class Gpus(BaseModel):
    """All GPUs."""

    gpus: list[GpuAnswer]


class Epochs(BaseModel):
    """Epochs of a GPU, oldest first."""

    gpu: str = Field(description="Its UUID.")
    epochs: list[EpochAnswer]


@router.get("", operation_id="listGpus", summary="All GPUs")
def gpus(served: Served) -> Gpus:
    """List every GPU that a telemetry source reported within `keep_days`, with what its detector found."""
    return Gpus(gpus=list(served.analysis.snapshot.gpus.values()))


@router.get("/{uuid}", operation_id="getGpu", summary="One GPU", responses=answers(404, 422))
def gpu(served: Served, uuid: Uuid) -> GpuAnswer:
    """Return what the detector of one GPU found."""
    return _known(served, uuid)


@router.get("/{uuid}/epochs", operation_id="listEpochs", summary="Epochs of a GPU", responses=answers(404, 422))
def epochs(
    served: Served,
    uuid: Uuid,
    since: Annotated[
        float | None,
        Query(allow_inf_nan=False, description="Only epochs that ended after this [unix s].", examples=[1.7e9]),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="At most this many, the newest.")] = 100,
    profiles: Annotated[bool, Query(description="Return the profile of each epoch too.")] = False,
) -> Epochs:
    """List the epochs that have ended, of all jobs of the GPU; ``job_since`` says which job an epoch belongs to."""
    _known(served, uuid)
    found = served.store.epochs(uuid, since=since, limit=limit, profiles=profiles)
    return Epochs(gpu=uuid, epochs=[_answer(one) for one in found])


def _known(served: Parts, uuid: str) -> GpuAnswer:
    try:
        return served.analysis.snapshot.gpus[uuid]
    except KeyError:
        raise HTTPException(404, f"no GPU {uuid!r:.220} was seen; /api/v1/gpus lists those that were") from None


def _answer(epoch: EpochRecord) -> EpochAnswer:
    return EpochAnswer(
        start=epoch.start,
        end=epoch.end,
        seconds=epoch.seconds,
        confidence=epoch.confidence,
        job_since=epoch.job_since,
        profile=None if epoch.profile is None else epoch.profile.to_json(),
    )
