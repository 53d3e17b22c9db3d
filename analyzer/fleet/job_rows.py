"""The answers to a fleet's jobs, each a row of ``jobs.parquet``: by workers where there are many, always in the same order.

The same prediction and recommendation as the service's. It takes more than all else that is done for a job, and no two depend
on each other. A job pays for its share of the machine that it runs on: eight jobs of one GPU each on a machine of eight cost
one machine together. What is recommended is priced whole, as somebody would have to rent it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from epochcast.analyzer.fleet.execution import Workers, in_batches, worked_on
from epochcast.analyzer.fleet.finding import JobSpan
from epochcast.analyzer.fleet.fleet_jobs import UnansweredJob, unanswered
from epochcast.analyzer.fleet.spans_by_start import SpansByStart
from epochcast.analyzer.fleet.stragglers import straggler_of
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.cycles import waits
from epochcast.analyzer.jobs.grouping import LEAST_EPOCHS
from epochcast.analyzer.jobs.job import Job, seen_work
from epochcast.analyzer.jobs.predict import comparable, count_gpus
from epochcast.analyzer.jobs.prices import rented
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.jobs.rank import Placement
from epochcast.analyzer.jobs.recommend import Recommendation
from epochcast.analyzer.jobs.sources import Source, find_slowest
from epochcast.analyzer.jobs.watched import JobPlan, WatchedJob, sources_of, sum_up, watched_job_json
from epochcast.detector import cycle_of

# Jobs that go to a worker together, about a second of work, and stretches of them: with each batch goes the model, 2.5 MB.
_MOST_JOBS, _MOST_SPANS = 50, 400

# Seconds that one job may take: a thousand times what most do.
_SECONDS = 30.0

# Of so few stretches the jobs are answered sooner than processes start.
_FEW = 100

_HOUR_S = 3600.0

Row = dict[str, Any]
"""Column of ``jobs.parquet`` -> value; one that is not known is None or missing."""


def job_rows(spans: SpansByStart, advisor: Advisor, workers: Workers | None = None) -> Iterator[Row]:
    """Yield a row for each job of a fleet, about by their beginning.

    Args:
        spans: all stretches of work; they are never held all at once.
        advisor: predicts and recommends.
        workers: they do it where there are many; None: this process does.

    Raises:
        FleetError: there is nobody left to work.
    """
    jobs = unanswered(spans)
    if workers is None or len(spans) <= _FEW:
        yield from (_row(advisor, job) for job in jobs)
        return
    batches = in_batches(jobs, lambda job: len(job.spans), most=_MOST_JOBS, most_bytes=_MOST_SPANS)
    done: dict[int, Row] = {}
    following = 0
    for results in worked_on(
        batches, partial(_numbered, advisor), workers, seconds_of=lambda _: _SECONDS, failed=partial(_failed, advisor)
    ):
        done |= results
        while following in done:
            yield done.pop(following)
            following += 1


def _numbered(advisor: Advisor, batch: Sequence[UnansweredJob]) -> dict[int, Row]:
    return {job.number: _row(advisor, job) for job in batch}


def _failed(advisor: Advisor, job: UnansweredJob, why: str) -> dict[int, Row]:
    return {job.number: _row(advisor, job, unpredicted=why)}


def _row(advisor: Advisor, job: UnansweredJob, *, unpredicted: str | None = None) -> Row:
    """Predict a job and say where it costs less; nothing of that where ``unpredicted`` says why not."""
    group, spans, reports = job.group, job.spans, [span.report for span in job.spans]
    gpus = tuple(dict.fromkeys(group.gpus))
    sources, notes = sources_of(reports, advisor.catalog)
    # GPUs are synchronous if five epochs ended together: fewer are not enough.
    distinguishable = all(report.detection.verdict == "epochs" and len(report.epochs) >= LEAST_EPOCHS for report in reports)
    whole = group.grouped_by != "single" or distinguishable or not job.shared
    if not whole:
        notes.append(
            "other GPUs of its machine were busy too, and without epochs it is unclear whether they belong to the same job"
        )
    result = None
    if unpredicted is not None:
        notes.append(f"nothing is predicted: {unpredicted}")
    try:
        if sources and unpredicted is None:
            result = _predicted(sources, spans, len(gpus), advisor)
    except ValueError as error:  # the InputError of any room
        notes.append(str(error))
    answer = sum_up(
        group,
        reports,
        advisor.catalog,
        sources=sources,
        epochs_seen=max(report.epochs_seen for report in reports),
        silent=(),
        plan=JobPlan(),
        notes=notes,
        answer=result,
    )
    answer = replace(answer, gpus=gpus, active=False)
    gpu_s = sum(span.seconds for span in spans)
    recommendation = None if result is None else result.recommendation
    return {
        **_of_answer(answer),
        **_of_spans(spans),
        "whole": whole,
        **({} if recommendation is None else _placement(recommendation, gpu_s / len(gpus), whole=whole)),
        **_straggler(answer, spans, gpu_s),
    }


def _predicted(sources: Sequence[Source], spans: Sequence[JobSpan], gpus: int, advisor: Advisor) -> Job:
    """Of the slowest GPU of each model: the others wait for it, and each more costs 10 ms."""
    by_model: dict[str, Source] = {}
    gpus = count_gpus(sources, gpus)
    for source in comparable(sources)[0]:
        known = by_model.setdefault(source.gpu.name, source)
        if (source.profile.epoch_s or 0.0) > (known.profile.epoch_s or 0.0):
            by_model[source.gpu.name] = source
    slowest = find_slowest(list(by_model.values()))
    devices, ran_s = [span.report.device for span in spans], max(span.seconds for span in spans)
    epochs = max(span.report.epochs_seen for span in spans)
    machines = len({device.node for device in devices})
    on = rented(
        slowest.gpu.name, gpus, advisor.instances, devices=devices, machines=machines, market=advisor.configured.limits.market
    )
    work, _ = seen_work(slowest, epochs=epochs, ran_s=ran_s, phrase="the {} that it ran")
    question = JobQuestion(machines=machines)
    return advisor.answer(list(by_model.values()), question, recommend=True, work=work, gpus=gpus, on=on)


# Columns that are named as in the answer that the service gives of a job.
_AS_ANSWERED = (
    *("title", "grouped_by", "gpus", "nodes", "gpu_model", "simulated", "verdict", "unit", "epoch_s", "epoch_s_low"),
    *("epoch_s_high", "confidence", "spread", "tensor_cores_idle"),
)


def _of_answer(answer: WatchedJob) -> Row:
    cycle, known = cycle_of(answer.epoch_s, answer.cycles), answer.answer
    return {
        "job": answer.id,
        **{name: getattr(answer, name) for name in _AS_ANSWERED},
        **{name: getattr(answer.use, name) for name in ("ofu", "held_idle_s", "held_idle_usd", "reduced_clock")},
        "gpu_count": len(answer.gpus),
        "epochs": answer.epochs_seen,
        "cycle": None if cycle is None else cycle.kind,
        "idle_ratio": None if cycle is None else cycle.idle_share,
        "idle_at_boundaries": waits(answer.cycles) if known is None else known.idle_at_boundaries,
        "notes": list(dict.fromkeys([*answer.notes, *(() if known is None else known.notes)])),
        "answer": watched_job_json(answer).decode(),
    }


def _of_spans(spans: Sequence[JobSpan]) -> Row:
    busy = [(span.busy_ratio, span.seconds) for span in spans if span.busy_ratio is not None]
    busy_s, energy = sum(seconds for _, seconds in busy), [span.energy_j for span in spans if span.energy_j is not None]
    return {
        "traces": list(dict.fromkeys(span.trace for span in spans)),
        "start": min(span.start for span in spans),
        "end": max(span.end for span in spans),
        "gpu_hours": sum(span.seconds for span in spans) / _HOUR_S,
        "busy_ratio": sum(ratio * seconds for ratio, seconds in busy) / busy_s if busy_s else None,
        "energy_j": sum(energy) if len(energy) == len(spans) else None,
        "memory_bytes": max((span.memory_bytes for span in spans if span.memory_bytes is not None), default=None),
    }


def _placement(recommendation: Recommendation, seconds: float, *, whole: bool) -> Row:
    """Where it runs and should run, and what it would have saved there in these ``seconds``, surely only if it is ``whole``."""
    verdict, now, best = recommendation.verdict, recommendation.current, recommendation.verdict.best
    row: Row = {"action": verdict.action, "advice": verdict.text}
    if not whole and verdict.action == "move":
        row = {"action": "measure", "advice": "Cannot tell yet: find out which GPUs belong to the job"}
    if now is not None:
        row |= _place("current", now) | {"current_assumed": recommendation.on.assumed}
    if best is not None:
        row |= _place("best", best)
        row |= {f"best_{name}": getattr(best, name) for name in ("instances", "usd_per_hour", "fits")}
        row |= {f"best_{name}": getattr(best.prediction, name) for name in ("ratio", "by_data_sheet")}
    return row if now is None or best is None else row | _saving(now, best, seconds, sure=whole and verdict.certain)


def _place(which: str, row: Placement) -> Row:
    return {f"{which}_{name}": text for name, text in row.instance.place.items()}


def _saving(now: Placement, best: Placement, seconds: float, *, sure: bool) -> Row:
    """For an hour of what it does now, as shares of the present cost; low and high are the prediction's 90 % interval."""
    usd = now.usd_per_hour
    saved, low, high = (
        1 - ratio * best.usd_per_hour / usd
        for ratio in (best.prediction.ratio, best.prediction.ratio_high, best.prediction.ratio_low)
    )
    return {
        "current_usd_per_hour": usd,
        "saving_ratio": saved,
        "saving_ratio_low": low,
        "saving_ratio_high": high,
        "saving_usd_per_hour": saved * usd,
        "saving_usd": saved * usd * seconds / _HOUR_S,
        "saving_sure": sure,
    }


def _straggler(answer: WatchedJob, spans: Sequence[JobSpan], gpu_s: float) -> Row:
    straggler = straggler_of([span.report for span in spans], answer.straggler)
    if straggler is None:
        return {}
    place, waits_ratio, why = straggler
    span = spans[place]
    return {
        "straggler": span.report.device.uuid,
        "straggler_trace": span.trace,
        "waits": waits_ratio,
        "waits_gpu_hours": waits_ratio * (gpu_s - span.seconds) / _HOUR_S,
        "straggler_why": why,
    }
