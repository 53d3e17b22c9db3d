"""What is said of a GPU, a job and a source in each state that it can be in: one word, and a sentence for whoever wonders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...jobs.answers import GpuAnswer, JobSummary
from ...words import length
from ..answers import Health

Kind = Literal["good", "wait", "quiet", "bad"]

# Ten samples of a source that is polled every few seconds; a detector that hears nothing that long knows nothing new.
SILENT_AFTER_S = 60.0

_LONG_AGO_S = 3600.0  # silence as old as this is no alarm any more: the machine was given back, or a recording is read

NOT_WORKING = ("idle", "silent", "no samples yet")
"""Words of GPUs that do nothing, or of which nothing is known."""

_EPOCHS_NEEDED = 4.5
"""Epochs that the detector sees before its first answer, median (docs/measurements.md)."""


@dataclass(frozen=True)
class State:
    """A word for a badge, its kind (its colour, beside the word), and a sentence."""

    kind: Kind
    word: str
    sentence: str


def of_gpu(gpu: GpuAnswer, now: float) -> State:
    """What its detector is doing."""
    if gpu.last_sample is None:
        return State("wait", "no samples yet", "Its source has not told a sample yet.")
    age = now - gpu.last_sample
    if age > SILENT_AFTER_S:
        said = f"No sample for {length(age)}: its agent does not answer, or what is read is a recording."
        return State("bad" if age < _LONG_AGO_S else "quiet", "silent", said)
    if gpu.state == "idle":
        return State("quiet", "idle", "No work for 15 s or more; what is shown is of the job before.")
    if gpu.state == "searching":
        return State("wait", "searching", _searching(now, gpu.job_since))
    return _answered(gpu.verdict)


def of_job(job: JobSummary, gpus: Mapping[str, GpuAnswer], now: float) -> State:
    """How far it is known; ``gpus`` by UUID."""
    if not job.active:
        return State("quiet", "ended", "Its GPUs are idle, or run something else; what is shown is how it was.")
    if job.verdict == "none" and all(gpus[uuid].state == "searching" for uuid in job.gpus if uuid in gpus):
        return State("wait", "searching", _searching(now, job.since))
    return _answered(job.verdict)


def of_source(source: Mapping[str, Any]) -> State:
    """Whether it answers."""
    if source.get("up"):
        return State("good", "up", "It answered when it was last asked.")
    if not source.get("polls", 1):
        return State("wait", "not asked yet", "It is asked within the next seconds.")
    return State("bad", "down", str(source.get("error") or "It did not answer when it was last asked."))


def of_service(health: Health) -> State:
    """The service itself."""
    words: dict[str, tuple[Kind, str]] = {
        "ok": ("good", "all well"),
        "starting": ("wait", "starting"),
        "degraded": ("bad", "needs attention"),
    }
    kind, word = words[health.status]
    return State(kind, word, " ".join(health.notes) or "Every source answers and every job could be looked at.")


def _answered(verdict: str) -> State:
    if verdict == "epochs":
        return State("good", "epochs", "Its epochs are known.")
    if verdict == "steps":
        return State("good", "steps only", "No epochs were found, only the steps of its training: what is told is per step.")
    return State(
        "wait",
        "no epochs",
        "It works, without a mark that comes back regularly, so how long an epoch takes is not known.",
    )


def _searching(now: float, since: float | None) -> str:
    known = f"An answer usually comes after {_EPOCHS_NEEDED:g} epochs"
    return f"{known}; it has worked for {length(now - since)}." if since is not None else f"{known}."
