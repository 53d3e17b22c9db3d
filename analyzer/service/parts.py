"""What the routes are answered from, put together once by `process`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request
from prometheus_client import CollectorRegistry

from epochcast.analyzer.live.state_store import StateStore
from epochcast.analyzer.plugins.registry import Registry
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.workers import Workers
from epochcast.common.authentication import Authentication

if TYPE_CHECKING:
    from epochcast.analyzer.jobs.advisor import Advisor
    from epochcast.analyzer.service.analysis import Analysis


@dataclass(frozen=True)
class Parts:
    """One service.

    Attributes:
        settings: what was configured.
        store: what the watcher found, and operators said.
        advisor: predicts and recommends; has the GPU catalogue and what can be rented.
        analysis: jobs with their predictions, as of a moment ago.
        workers: processes for what may take long.
        backends: other ways to predict, as they are installed.
        registry: what ``/metrics`` shows.
        authentication: what clients must send; None: nothing.
    """

    settings: Settings
    store: StateStore
    advisor: Advisor
    analysis: Analysis
    workers: Workers
    backends: Registry
    registry: CollectorRegistry
    authentication: Authentication | None = None


async def _parts(request: Request) -> Parts:
    return cast(Parts, request.app.state.parts)


Served = Annotated[Parts, Depends(_parts)]
"""A route's parameter of this type is the app's parts."""
