"""The service's view of the fleet: jobs, with what is predicted and recommended of each, made anew whenever the store changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..live.report import Report
from ..live.state_store import StateStore
from ..recommendation import Limits, Objective
from .advisor import Advisor
from .answers import GpuAnswer, Health, JobAnswer, JobPlan, PredictionAnswer, RecommendationAnswer
from .config import Settings


@dataclass(frozen=True)
class Snapshot:
    """All that is known, as of one moment; it never changes.

    Attributes:
        taken_at: unix seconds.
        gpus: by UUID.
        jobs: by id, the newest first.
        reports: of the GPUs, by UUID.
        health: of the service.
    """

    taken_at: float
    gpus: Mapping[str, GpuAnswer]
    jobs: Mapping[str, JobAnswer]
    reports: Mapping[str, Report]
    health: Health


class Analysis:
    """Keeps a snapshot of the store's content."""

    def __init__(self, store: StateStore, advisor: Advisor, settings: Settings) -> None:
        raise NotImplementedError

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def round(self) -> None: ...

    @property
    def snapshot(self) -> Snapshot: ...

    def prediction(self, job: str, *, targets: Sequence[str] | None = None, epochs: int | None = None) -> PredictionAnswer: ...

    def recommendation(
        self, job: str, *, objective: Objective | None = None, limits: Limits | None = None, epochs: int | None = None
    ) -> RecommendationAnswer: ...

    def set_plan(self, job: str, plan: JobPlan) -> None: ...
