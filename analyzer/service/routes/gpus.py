"""GPUs that were seen, and their epochs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from ...jobs.answers import GpuAnswer
from ...live.report import EpochRecord
from ..answers import EpochAnswer
from ..parts import Parts, Served
from ..problems import answers

router = APIRouter(prefix="/api/v1/gpus", tags=["GPUs"])

Uuid = Annotated[str, Path(max_length=200, description="As the list of GPUs has it.", examples=["GPU-8f2c1f0a-0"])]


class Gpus(BaseModel):
    """All GPUs."""

    gpus: list[GpuAnswer]


class Epochs(BaseModel):
    """Epochs of a GPU, oldest first."""

    gpu: str = Field(description="Its UUID.")
    epochs: list[EpochAnswer]


@router.get("", operation_id="listGpus", summary="GPUs that were seen")
def gpus(served: Served) -> Gpus:
    """Every GPU that a source of telemetry told of within the days that are kept, with what its detector knows."""
    return Gpus(gpus=list(served.analysis.snapshot.gpus.values()))


@router.get("/{uuid}", operation_id="getGpu", summary="One GPU", responses=answers(404, 422))
def gpu(served: Served, uuid: Uuid) -> GpuAnswer:
    """Return one GPU."""
    return _known(served, uuid)


@router.get("/{uuid}/epochs", operation_id="listEpochs", summary="Epochs of a GPU", responses=answers(404, 422))
def epochs(
    served: Served,
    uuid: Uuid,
    since: Annotated[
        float | None, Query(allow_inf_nan=False, description="Only those that ended after this [unix s].", examples=[1.7e9])
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="The newest so many.")] = 100,
    profiles: Annotated[bool, Query(description="With the profile of each epoch.")] = False,
) -> Epochs:
    """Epochs that have ended, over all jobs of the GPU; ``job_since`` tells these apart."""
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
