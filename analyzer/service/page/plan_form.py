"""The form that sets a job's plan, on its page: what `PUT /api/v1/jobs/ID/plan` takes, without the figures of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import Request
from pydantic import ValidationError

from epochcast.analyzer.jobs.prices import Instance
from epochcast.analyzer.jobs.watched import JobPlan, WatchedJob

FIELDS = {"epochs": "Epochs of the whole job", "instance": "Instance it runs on", "cloud": "Cloud", "region": "Region"}
"""Keys of a plan, with their labels."""

_REMEDIES = {"epochs": "give a whole number from 1 to 1,000,000,000"}
_REMEDY = "give at most 100 characters"


async def read_plan(request: Request) -> dict[str, str]:
    """Return what was typed; HTTPException (400) where it is no form."""
    async with request.form(max_files=0, max_fields=8) as form:
        return {name: value.strip() for name in FIELDS if isinstance(value := form.get(name, ""), str)}


def plan_of(typed: Mapping[str, str], before: JobPlan) -> tuple[JobPlan | None, dict[str, str]]:
    """Return the plan, with what the form does not show as ``before``, or None and a sentence for each wrong field."""
    values = {name: typed.get(name) or None for name in FIELDS}
    try:
        return JobPlan.model_validate({**before.model_dump(), **values}), {}
    except ValidationError as error:
        wrong = {str(each["loc"][0]): f"{each['input']!r:.40}" for each in error.errors()}
        return None, {name: f"This is {seen}; {_REMEDIES.get(name, _REMEDY)}." for name, seen in wrong.items()}


def plan_form(
    job: WatchedJob, instances: Iterable[Instance], typed: Mapping[str, str] | None, errors: Mapping[str, str]
) -> dict[str, Any]:
    """Return what the template shows of the form: what was ``typed``, else the plan as it is."""
    known = {name: "" if (value := getattr(job.plan, name)) is None else str(value) for name in FIELDS}
    return {
        "fields": [(name, label, (typed or known).get(name, ""), errors.get(name)) for name, label in FIELDS.items()],
        "instances": sorted({instance.name for instance in instances if instance.gpu == job.gpu_model}),
    }
