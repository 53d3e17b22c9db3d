"""Query parameters that several routes share."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from fastapi import Depends, Query

from ...instances import Market
from ...jobs.answers import Objective
from ...recommendation import Limits
from ..parts import Served
from ..questions import GpuName

Targets = Annotated[
    list[GpuName] | None, Query(min_length=1, max_length=100, description="GPU models (repeatable); all of the catalogue.")
]
WholeEpochs = Annotated[int | None, Query(ge=1, le=10**9, description="Epochs (or steps) of the whole job; else of one.")]

_Places = Annotated[list[GpuName] | None, Query(max_length=100, description="Only these (repeatable); as configured.")]
_Positive = Annotated[float | None, Query(gt=0, allow_inf_nan=False, description="At most so much, as expected.")]


class Recommendable(NamedTuple):
    """What a recommendation is to keep."""

    objective: Objective
    limits: Limits


def _wanted(
    served: Served,
    objective: Annotated[Objective | None, Query(description="What to rank by; as configured.")] = None,
    market: Annotated[Market | None, Query(description="Which price is paid; as configured.")] = None,
    cloud: _Places = None,
    region: _Places = None,
    deadline_s: _Positive = None,
    budget_usd: _Positive = None,
) -> Recommendable:
    settings = served.settings
    limits = Limits(
        deadline_s,
        budget_usd,
        settings.regions if region is None else region,
        settings.clouds if cloud is None else cloud,
        market or settings.market,
    )
    return Recommendable(objective or settings.objective, limits)


Wanted = Annotated[Recommendable, Depends(_wanted)]
