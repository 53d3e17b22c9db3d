"""A GPU as the scheduler sees it."""

from __future__ import annotations

from dataclasses import dataclass, field

from .job import Job


@dataclass(eq=False)
class Gpu:
    """One GPU: its memory in bytes and the jobs that run on it now."""

    memory: float
    jobs: list[Job] = field(default_factory=list)

    @property
    def free_memory(self) -> float:
        """Bytes that the running jobs leave: once they run, what they hold can be read."""
        return self.memory - sum(job.memory for job in self.jobs)
