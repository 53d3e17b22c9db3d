"""What the page of a job shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from epochcast.analyzer.jobs.cycles import waits
from epochcast.analyzer.jobs.watched import WatchedGpu, WatchedJob
from epochcast.analyzer.service.listing import gpu_place
from epochcast.analyzer.service.page import states
from epochcast.analyzer.service.page.overview import hardware, where
from epochcast.analyzer.service.page.plots import Plot, epoch_plot, interval_plot
from epochcast.analyzer.telemetry.gpu_report import EpochRecord

if TYPE_CHECKING:
    from epochcast.analyzer.service.analysis import Snapshot

MOST_MARKS = 600
"""Epochs of all GPUs of a job in a plot: more would be a smear, and slow to read from the store."""

MOST_GPUS = 64
"""GPUs of a job on its page."""

RATIO_ONLY = "No epochs were found, so there are only ratios: the time on another GPU divided by the time here."

_OWNERS = {"slurm_job": "Slurm job", "pod": "Kubernetes pod", "container": "container", "process": "process"}

ReadEpochs = Callable[..., Sequence[EpochRecord]]  # StateStore.epochs


def job_page(job: WatchedJob, snapshot: Snapshot, read_epochs: ReadEpochs, now: float) -> dict[str, Any]:
    """Return what the template shows of ``job`` at ``now`` [unix s]."""
    answer, state = job.answer, states.of_job(job, snapshot.gpus, now)
    rec = None if answer is None else answer.recommendation
    shown = () if answer is None else answer.notes
    known = sorted((snapshot.gpus[uuid] for uuid in job.gpus if uuid in snapshot.gpus), key=gpu_place)
    slowest = next((gpu for gpu in known if gpu.uuid == job.straggler), None)
    # Of a large job the straggler, wherever it is, and the first of the others.
    shown_gpus = sorted(known, key=lambda gpu: gpu is not slowest)[:MOST_GPUS]
    return {
        "now": now,
        "snapshot": snapshot,
        "job": job,
        "state": state,
        "hardware": hardware(job, snapshot.gpus),
        "where": where(job.nodes),
        "rec": rec,
        "answer_notes": shown,
        "other_notes": [note for note in job.notes if note not in shown],
        "waits": waits(job.cycles) if answer is None else answer.idle_at_boundaries,
        "gpus": sorted(shown_gpus, key=gpu_place),
        "known": len(known),
        "straggler": None if slowest is None else f"GPU {slowest.label} of {slowest.node}",
        "grouping": _grouping(job),
        "plot": _plot(job, shown_gpus, read_epochs),
        "intervals": None if answer is None else interval_plot(answer, job.gpu_model),
        "ratio_only": RATIO_ONLY,
        "no_epochs": no_epochs(job.verdict, state),
        "no_prediction": f"Nothing can be predicted yet. {_why_not(job, state)}",
        "no_recommendation": f"Nothing can be recommended yet. {_why_not(job, state)}"
        if rec is None
        else "No instance in the price table qualifies.",
    }


def _grouping(job: WatchedJob) -> str:
    """Why its GPUs count as one job."""
    if job.grouped_by == "single":
        return "It trains alone: no other GPU has the same epochs."
    if job.grouped_by == "phase":
        return "These GPUs count as one job because their epochs take the same time and end together."
    return f"One {_OWNERS[job.grouped_by]} uses {'these GPUs' if len(job.gpus) > 1 else 'this GPU'}."


def no_epochs(verdict: str, state: states.State) -> str:
    """Why there is no plot of epochs."""
    if verdict == "steps":
        return "Only its steps were found. Its telemetry shows no boundary between epochs."
    return state.sentence if state.word in ("searching", "no samples yet") else "No epochs were found."


def _plot(job: WatchedJob, gpus: Sequence[WatchedGpu], read_epochs: ReadEpochs) -> Plot | None:
    if job.since is None or job.unit == "step":
        return None
    limit = max(10, MOST_MARKS // max(1, len(gpus)))
    # A GPU may have begun another job since this one ended.
    last = float("inf") if job.active or job.last_epoch_end is None else job.last_epoch_end + 1.0
    epochs = {}
    for uuid in (gpu.uuid for gpu in gpus):
        newest = read_epochs(uuid, since=job.since, limit=limit, profiles=False)
        epochs[uuid] = [epoch for epoch in newest if epoch.start >= job.since - 1 and epoch.end <= last]
    expected = None
    if job.unit == "epoch" and job.epoch_s_low is not None and job.epoch_s_high is not None:
        expected = (job.epoch_s_low, job.epoch_s_high)
    names = {gpu.uuid: f"{gpu.node} GPU {gpu.label}" for gpu in gpus}
    return epoch_plot(epochs, since=job.since, expected=expected, names=names, standing_out=job.straggler)


def _why_not(job: WatchedJob, state: states.State) -> str:
    if state.word == "searching":
        return "The detector needs a few epochs, or a few minutes of work."
    return "See the notes below." if job.notes else "The first profile comes after a minute of work."
