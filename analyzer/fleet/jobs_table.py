"""``jobs.parquet``: one row for each job of a fleet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from epochcast.analyzer.fleet.fleet_jobs import FleetJob
from epochcast.analyzer.jobs.cycles import waits
from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.watched import WatchedJob, watched_job_json
from epochcast.detector import cycle_of


def _column(name: str, kind: pa.DataType, what: str) -> pa.Field:
    return pa.field(name, kind, metadata={"what": what})


_TEXT, _NUMBER, _COUNT, _TEXTS = pa.string(), pa.float64(), pa.int64(), pa.list_(pa.string())

SCHEMA = pa.schema(
    [
        _column("job", _TEXT, "id; the same traces always give the same id"),
        _column("title", _TEXT, "for people"),
        _column(
            "grouped_by", _TEXT, "evidence that its GPUs belong together: phase, slurm_job, pod, container, process; single"
        ),
        _column("gpu_count", _COUNT, "GPUs that worked in it"),
        _column("gpus", _TEXTS, "UUIDs of these"),
        _column("traces", _TEXTS, "traces that it was found in"),
        _column("nodes", _TEXTS, "machines of its GPUs"),
        _column(
            "whole",
            pa.bool_(),
            "its GPUs are known to be the whole job; a GPU without epochs next to others may be only a part",
        ),
        _column("gpu_model", _TEXT, "name in the GPU catalogue, or as the driver has it"),
        _column("simulated", pa.bool_(), "no hardware was read"),
        _column("start", _NUMBER, "first work of the first GPU [unix s]"),
        _column("end", _NUMBER, "last work of the last GPU [unix s]"),
        _column("gpu_hours", _NUMBER, "hours of work, all GPUs together"),
        _column("verdict", _TEXT, "epochs, steps or none"),
        _column("unit", _TEXT, "what epoch_s measures: epoch, step or cycle; empty if only ratios are known"),
        _column("epoch_s", _NUMBER, "seconds of one epoch, step or cycle, of the slowest GPU"),
        _column("epoch_s_low", _NUMBER, "lower end of its 90 % interval"),
        _column("epoch_s_high", _NUMBER, "upper end"),
        _column("cycle", _TEXT, "kind of the cycle that epoch_s measures: step, checkpoint, evaluation, epoch, unknown"),
        _column("idle_ratio", _NUMBER, "share of time in which its GPUs wait, over whole cycles of that kind, 0..1"),
        _column("idle_at_boundaries", _TEXTS, "what its GPUs wait for at the boundaries of cycles"),
        _column("ofu", _NUMBER, "share of its GPUs' peak of matrix products, 0..1; empty without tensor activity and SM clock"),
        _column("tensor_cores_idle", pa.bool_(), "SMs are busy in FP32 and no tensor core works"),
        _column("held_idle_s", _NUMBER, "seconds in which memory was held and nothing ran, all GPUs; empty where one has none"),
        _column("held_idle_usd", _NUMBER, "what these cost; empty where it is not known what the job runs on"),
        _column("reduced_clock", _TEXT, "the reason that held the clocks down most; empty below 1 % of the time"),
        _column("confidence", _NUMBER, "of the detector, 0..1"),
        _column("epochs", _COUNT, "epochs found, on the GPU with the most"),
        _column("busy_ratio", _NUMBER, "mean of the activity metric, 0..1"),
        _column("energy_j", _NUMBER, "joules of all GPUs together; empty if any GPU has no power reading"),
        _column("memory_bytes", _NUMBER, "most GPU memory in use on one GPU"),
        _column("spread", _NUMBER, "how much longer the slowest GPU's epochs take than the fastest's"),
        _column("straggler", _TEXT, "UUID of the GPU that the others wait for"),
        _column("straggler_trace", _TEXT, "trace of that GPU"),
        _column("waits", _NUMBER, "share of time that the others wait for it, 0..1"),
        _column("straggler_why", _TEXT, "evidence for it"),
        _column(
            "action", _TEXT, "what to do: stay, move, measure, choose (its price now is not known), none (nothing qualifies)"
        ),
        _column("advice", _TEXT, "the same for people"),
        _column("current_instance", _TEXT, "what it runs on: as reported, or the cheapest instance with its GPUs"),
        _column("current_cloud", _TEXT, ""),
        _column("current_region", _TEXT, ""),
        _column("current_assumed", pa.bool_(), "what it runs on is assumed"),
        _column("current_usd_per_hour", _NUMBER, "present cost of the job: its GPUs' share of the machine"),
        _column("best_instance", _TEXT, "where it should run; what it runs on now where it should stay"),
        _column("best_cloud", _TEXT, ""),
        _column("best_region", _TEXT, ""),
        _column("best_gpu", _TEXT, ""),
        _column("best_instances", _COUNT, "how many of them it takes"),
        _column("best_usd_per_hour", _NUMBER, "of all of these, each whole; its share where it should stay"),
        _column("best_ratio", _NUMBER, "its time there over its time now"),
        _column("best_fits", pa.bool_(), "whether the GPU has the memory; empty where not known"),
        _column(
            "best_by_data_sheet",
            pa.bool_(),
            "its time there relies on data sheets: nothing was measured on one of the GPUs",
        ),
        _column("saving_ratio", _NUMBER, "share of the present cost saved there; 0 if it should stay"),
        _column("saving_ratio_low", _NUMBER, "lower end of its 90 % interval"),
        _column("saving_ratio_high", _NUMBER, "upper end"),
        _column("saving_usd_per_hour", _NUMBER, "for each hour of the job as it runs now"),
        _column("saving_usd", _NUMBER, "of the analysed time"),
        _column(
            "saving_sure",
            pa.bool_(),
            "the first line is certain of it, and whole",
        ),
        _column("notes", _TEXTS, "what these answers rely on and what is missing"),
        _column("answer", _TEXT, "the whole answer as JSON (epochcast.watched-job/v1), as the service gives it"),
    ],
    metadata={"schema": "epochcast.fleet-jobs/v1"},
)

# Columns that are named as in the answer that the service gives of a job.
_AS_ANSWERED = (
    *("title", "grouped_by", "gpus", "nodes", "gpu_model", "simulated", "verdict", "unit", "epoch_s", "epoch_s_low"),
    *("epoch_s_high", "confidence", "spread", "tensor_cores_idle"),
)

# Rows that are held before they are written: about 100 kB each, most of that the answer.
_ROWS = 250


def write_jobs(jobs: Iterable[dict[str, Any]], file: BinaryIO) -> None:
    """Write the jobs' rows (`row_of`) as they come."""
    with pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        rows: list[dict[str, Any]] = []
        for job in jobs:
            rows.append(job)
            if len(rows) == _ROWS:
                writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
                rows.clear()
        writer.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))


def row_of(job: FleetJob) -> dict[str, Any]:
    """Return the job's row: column name -> value; a value that is not known is missing."""
    answer, spans = job.answer, job.spans
    return {
        "job": answer.id,
        **{name: list(value) if isinstance(value := getattr(answer, name), tuple) else value for name in _AS_ANSWERED},
        **{name: getattr(answer.use, name) for name in ("ofu", "held_idle_s", "held_idle_usd", "reduced_clock")},
        "gpu_count": len(answer.gpus),
        "traces": list(dict.fromkeys(span.trace for span in spans)),
        "whole": job.complete,
        "start": job.start,
        "end": job.end,
        "gpu_hours": job.gpu_s / 3600,
        "epochs": answer.epochs_seen,
        "busy_ratio": _mean([(span.busy_ratio, span.seconds) for span in spans]),
        "energy_j": _sum([span.energy_j for span in spans]),
        "memory_bytes": max((span.memory_bytes for span in spans if span.memory_bytes is not None), default=None),
        **_idle(job),
        **_straggler(job),
        **_placement(job),
        "notes": _notes(answer),
        "answer": watched_job_json(answer).decode(),
        **_saving(job),
    }


def _idle(job: FleetJob) -> dict[str, Any]:
    cycle, known = cycle_of(job.answer.epoch_s, job.answer.cycles), job.answer.answer
    return {
        "cycle": None if cycle is None else cycle.kind,
        "idle_ratio": None if cycle is None else cycle.idle_share,
        "idle_at_boundaries": waits(job.answer.cycles) if known is None else list(known.idle_at_boundaries),
    }


def _straggler(job: FleetJob) -> dict[str, Any]:
    if job.straggler is None:
        return {}
    span = job.spans[job.straggler.place]
    return {
        "straggler": span.report.device.uuid,
        "straggler_trace": span.trace,
        "waits": job.straggler.waits,
        "straggler_why": job.straggler.why,
    }


def _placement(job: FleetJob) -> dict[str, Any]:
    recommendation = job.recommendation
    row: dict[str, Any] = {} if job.advice is None else {"action": job.advice.action, "advice": job.advice.text}
    if recommendation is None:
        return row
    if (now := recommendation.current) is not None:
        row |= _place("current", now) | {"current_assumed": recommendation.on.assumed}
        row["current_usd_per_hour"] = None if job.saving is None else job.saving.usd_per_hour
    if (best := recommendation.verdict.best) is not None:
        row |= _place("best", best)
        row |= {f"best_{name}": getattr(best, name) for name in ("instances", "usd_per_hour", "fits")}
        row |= {f"best_{name}": getattr(best.prediction, name) for name in ("ratio", "by_data_sheet")}
    return row


def _place(which: str, row: Placement) -> dict[str, str]:
    return {f"{which}_{name}": text for name, text in row.instance.place.items() if f"{which}_{name}" in SCHEMA.names}


def _saving(job: FleetJob) -> dict[str, Any]:
    saving = job.saving
    if saving is None:
        return {}
    return {
        "saving_ratio": saving.ratio,
        "saving_ratio_low": saving.low,
        "saving_ratio_high": saving.high,
        "saving_usd_per_hour": saving.saved_usd_per_hour,
        "saving_usd": job.saved_usd,
        "saving_sure": job.sure,
    }


def _notes(answer: WatchedJob) -> list[str]:
    return list(dict.fromkeys([*answer.notes, *(() if answer.answer is None else answer.answer.notes)]))


def _mean(values: list[tuple[float | None, float]]) -> float | None:
    """Weighted; None where nothing is known."""
    known = [(value, weight) for value, weight in values if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _sum(values: list[float | None]) -> float | None:
    """None where one is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
