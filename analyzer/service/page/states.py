"""The text for each state of a GPU, a job and a source: one word, and a sentence that explains it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from epochcast.analyzer.jobs.watched import WatchedGpu, WatchedJob
from epochcast.analyzer.live.health import SourceStatus
from epochcast.analyzer.service.analysis import Health
from epochcast.analyzer.words import length
from epochcast.detector.confidence import SURE

Kind = Literal["good", "wait", "quiet", "bad"]

# Ten samples of a source that is polled every few seconds; a detector that hears nothing that long knows nothing new.
SILENT_AFTER_S = 60.0

_LONG_AGO_S = 3600.0  # silence as old as this is no alarm any more: the machine was given back, or a recording is read

_EPOCHS_NEEDED = 4.5
"""Epochs that the detector sees before its first answer, median (docs/measurements.md)."""


@dataclass(frozen=True)
class State:
    """A word for a badge, its kind (its colour, next to the word), and a sentence."""

    kind: Kind
    word: str
    sentence: str


def of_gpu(gpu: WatchedGpu, now: float) -> State:
    """What its detector is doing."""
    if gpu.last_sample is None:
        return State("wait", "no samples yet", "Its source has not delivered a sample yet.")
    age = now - gpu.last_sample
    if age > SILENT_AFTER_S:
        return _silent(age, f"No sample for {length(age)}: its agent does not answer, or the source reads a recording.")
    if gpu.state == "idle":
        return State("quiet", "idle", "No work for at least 15 s. This page shows its last job.")
    if gpu.state == "searching":
        return State("wait", "searching", _searching(now, gpu.job_since))
    unsure = gpu.detection.confidence < SURE
    return _answered(gpu.detection.verdict, gpu.detection.unit, unsure=unsure)


def is_working(gpu: WatchedGpu, now: float) -> bool:
    """Whether it does something, and that is known."""
    return gpu.state != "idle" and gpu.last_sample is not None and now - gpu.last_sample <= SILENT_AFTER_S


def is_lost(gpu: WatchedGpu, now: float) -> bool:
    """Whether it has fallen silent, and not so long ago that it was given back."""
    return gpu.last_sample is not None and SILENT_AFTER_S < now - gpu.last_sample < _LONG_AGO_S


def of_job(job: WatchedJob, gpus: Mapping[str, WatchedGpu], now: float) -> State:
    """How far it is known; ``gpus`` by UUID."""
    if not job.active:
        return State("quiet", "ended", "Its GPUs are idle or run another job. This page shows the last known state.")
    own = [gpus[uuid] for uuid in job.gpus if uuid in gpus]
    newest = _newest_sample(own)
    if newest is not None and now - newest > SILENT_AFTER_S:
        age = now - newest
        return _silent(age, f"None of its GPUs has sent a sample for {length(age)}. This page shows the last known state.")
    if job.verdict == "none" and all(gpu.state == "searching" for gpu in own):
        return State("wait", "searching", _searching(now, job.since))
    return _answered(job.verdict, job.unit, unsure=job.epoch_s is None)


def of_source(source: SourceStatus) -> State:
    """Whether it answers."""
    if source.up:
        age = source.lag_s or 0.0
        if age > SILENT_AFTER_S:
            return State("quiet", "nothing new", f"It answers, but its newest sample is {length(age)} old.")
        return State("good", "up", "It answered the last poll.")
    if not source.polls:
        return State("wait", "not polled yet", "The first poll is due within seconds.")
    return State("bad", "down", source.error or "It did not answer the last poll.")


def of_service(health: Health, gpus: Iterable[WatchedGpu], now: float) -> State:
    """The service itself; without telemetry of now it is not well, even if its processes run."""
    if health.status == "ok" and (said := no_telemetry(gpus, now)):
        return State("quiet", "no telemetry", said)
    words: dict[str, tuple[Kind, str]] = {
        "ok": ("good", "all well"),
        "starting": ("wait", "starting"),
        "degraded": ("bad", "needs attention"),
    }
    kind, word = words[health.status]
    return State(kind, word, " ".join(health.notes) or "Every source answers, and every job is analysed.")


def no_telemetry(gpus: Iterable[WatchedGpu], now: float) -> str:
    """A sentence where no GPU reports now; empty where one does."""
    known = list(gpus)
    if not known:
        return "No GPU has been seen yet."
    newest = _newest_sample(known)
    if newest is None:
        return "No GPU has sent a sample yet."
    age = now - newest
    return f"No GPU is reporting now; the newest sample is {length(age)} old." if age > SILENT_AFTER_S else ""


def _newest_sample(gpus: Iterable[WatchedGpu]) -> float | None:
    return max((gpu.last_sample for gpu in gpus if gpu.last_sample is not None), default=None)


def _silent(age: float, sentence: str) -> State:
    return State("bad" if age < _LONG_AGO_S else "quiet", "silent", sentence)


def _answered(verdict: str, unit: str | None, *, unsure: bool) -> State:
    if verdict == "none":
        return State("wait", "no epochs", "It is busy, but nothing repeats regularly, so its epoch time is unknown.")
    if unsure:
        return State("wait", f"{verdict} unsure", f"There seem to be {verdict}, but their length is too uncertain.")
    if unit == "cycle":
        return State("good", "cycle found", "Its work repeats, but neither in epochs nor in steps: times are per cycle.")
    if unit == "step":
        return State("good", "steps found", "Only the steps of its training were found, no epochs: times are per step.")
    return State("good", "epochs found", "Its epochs are known.")


def _searching(now: float, since: float | None) -> str:
    needed = f"Finding the epoch time usually takes {_EPOCHS_NEEDED:g} epochs"
    return f"{needed}; it has been busy for {length(now - since)}." if since is not None else f"{needed}."
