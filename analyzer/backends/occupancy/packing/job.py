"""One job that waits for a GPU, what it is drawn from, and a GPU as the scheduler sees it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class PackedJob:
    """A job of one GPU.

    Attributes:
        name: what it is called.
        arrival: seconds at which it asks for a GPU.
        duration: seconds that it takes alone on a GPU.
        occupancy: its true mean GPU occupancy, 0..1; it drives the slowdown.
        predicted_occupancy: the occupancy that the scheduler knows, 0..1.
        nvml_utilisation: share of the time alone in which a kernel runs, 0..1.
        memory: bytes that it holds on the GPU from start to end.
        predicted_memory: bytes that the scheduler knows.
        kind: key of the :class:`JobKind` that it was drawn from, if any.
    """

    name: str
    arrival: float
    duration: float
    occupancy: float
    predicted_occupancy: float
    nvml_utilisation: float
    memory: float
    predicted_memory: float
    kind: str = ""


@dataclass(frozen=True)
class JobKind:
    """One network with its input sizes on one GPU.

    Attributes:
        key: what it is called.
        occupancy: mean GPU occupancy while it runs, 0..1.
        nvml_utilisation: share of the time in which a kernel runs, 0..1.
        memory: bytes.
    """

    key: str
    occupancy: float
    nvml_utilisation: float
    memory: float


@dataclass(eq=False)
class PackedGpu:
    """One GPU: its memory in bytes and the jobs that run on it now."""

    memory: float
    jobs: list[PackedJob] = field(default_factory=list)

    @property
    def free_memory(self) -> float:
        """Bytes that the running jobs leave: once they run, what they hold can be read."""
        return self.memory - sum(job.memory for job in self.jobs)
