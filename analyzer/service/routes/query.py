"""Query parameters that several routes share."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import Depends, Query, Request

from epochcast.analyzer.jobs.prices import Market
from epochcast.analyzer.jobs.questions import GpuName
from epochcast.analyzer.jobs.rank import JobLimits, Objective
from epochcast.analyzer.jobs.recommend import Renting
from epochcast.analyzer.service.parts import Served

_CONFIGURED = "(default: as configured)"

Targets = Annotated[
    list[GpuName] | None,
    Query(min_length=1, max_length=100, description="Target GPUs (repeatable; default: all)."),
]
WholeEpochs = Annotated[int | None, Query(ge=1, le=10**9, description="Epochs (or steps) of the whole job (default: one).")]

Limit = Annotated[int, Query(ge=1, le=1000, description="At most this many; `next` in the answer leads to the others.")]
After = Annotated[str, Query(max_length=1000, description="Start of the page, from `next` of the previous page.")]
Words = Annotated[str, Query(max_length=200, description="Only entries with this text in a name, ignoring case.")]
Node = Annotated[str | None, Query(max_length=300, description="Only entries on this node.")]

_Clouds = Annotated[list[GpuName] | None, Query(max_length=100, description=f"Only this cloud, repeatable {_CONFIGURED}.")]
_Regions = Annotated[list[GpuName] | None, Query(max_length=100, description=f"Only this region, repeatable {_CONFIGURED}.")]
_Deadline = Annotated[
    float | None, Query(gt=0, allow_inf_nan=False, description="Only instances expected to finish within this many seconds.")
]
_Budget = Annotated[
    float | None, Query(gt=0, allow_inf_nan=False, description="Only instances expected to cost at most this much.")
]


def _wanted(
    served: Served,
    objective: Annotated[Objective | None, Query(description=f"Rank by cost or by time {_CONFIGURED}.")] = None,
    market: Annotated[Market | None, Query(description=f"Which price to pay {_CONFIGURED}.")] = None,
    cloud: _Clouds = None,
    region: _Regions = None,
    deadline_s: _Deadline = None,
    budget_usd: _Budget = None,
) -> Renting:
    settings = served.settings
    limits = JobLimits(
        deadline_s,
        budget_usd,
        tuple(settings.regions if region is None else region),
        tuple(settings.clouds if cloud is None else cloud),
        market or settings.market,
    )
    return Renting(objective or settings.objective, limits)


Wanted = Annotated[Renting, Depends(_wanted)]


def next_page(request: Request, after: str | None) -> str | None:
    """Path and query of the page that begins ``after``, for the question of ``request``; None where there is none."""
    if after is None:
        return None
    asked = [(name, value) for name, value in request.query_params.multi_items() if name != "after"]
    return f"{request.url.path}?{urlencode([*asked, ('after', after)])}"
