"""Metrics of jobs: what the newest snapshot says of each, sums of all, and of the prices that recommendations rest on.

A page of metrics has a bound: Prometheus drops all of one that is too large, or takes too long, and not what matters least.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, time
from itertools import chain

from prometheus_client import Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from epochcast.analyzer.jobs.rank import Placement
from epochcast.analyzer.jobs.recommend import Recommendation
from epochcast.analyzer.jobs.watched import WatchedJob
from epochcast.analyzer.live.metrics import Value, catalog, families
from epochcast.analyzer.service.analysis import Analysis, Snapshot

MOST_BYTES = 1_700_000
"""Of the lines on jobs and their GPUs; with all others a page stays below 2 MB."""

# GPUs of a job that may be left out by itself, as the smaller ones after it still fit.
_LARGE = 1024

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class JobMetrics(Collector):
    """Collects the families of metrics.toml that are of jobs and of the analysis."""

    def __init__(self, analysis: Analysis, predicted_gpus: int) -> None:
        """Export ``analysis``, whose rounds are timed from now on, with predictions for so many GPUs of each job."""
        self._analysis = analysis
        self._predicted_gpus = predicted_gpus
        seconds = catalog()["epochcast_analyzer_analysis_seconds"]
        self._seconds = Histogram(seconds.name, seconds.help, registry=None, buckets=_BUCKETS)
        analysis.on_round = self._seconds.observe

    def collect(self) -> Iterator[Metric]:
        """Yield the families that have a value."""
        yield from families(self._values())
        yield from self._seconds.collect()

    def _values(self) -> Iterator[Value]:
        snapshot = self._analysis.snapshot
        yield "epochcast_analyzer_analysis_errors_total", (), self._analysis.errors
        oldest = datetime.combine(self._analysis.oldest_price, time(), UTC)
        yield "epochcast_analyzer_oldest_price_timestamp_seconds", (), oldest.timestamp()
        jobs = _current_jobs(snapshot)
        active = [job for job in jobs if job.active]
        yield "epochcast_analyzer_active_jobs", (), len(active)
        yield "epochcast_analyzer_possible_savings_usd_per_hour", (), sum(map(_hourly_savings, active))
        yield from _within_bounds(jobs, snapshot, self._predicted_gpus)


def _current_jobs(snapshot: Snapshot) -> list[WatchedJob]:
    """Jobs that a GPU runs or ran last, if it is not gone: the others have ended, and stay on the page alone.

    Those that run come first, of these the largest.
    """
    newest = {gpu.job for gpu in snapshot.gpus.values() if gpu.uuid not in snapshot.gone}
    current = (job for job in snapshot.jobs.values() if job.id in newest)
    return sorted(current, key=lambda job: (not job.active, -len(job.gpus), job.since or 0.0, job.id))


def _within_bounds(jobs: Sequence[WatchedJob], snapshot: Snapshot, predicted_gpus: int) -> Iterator[Value]:
    """First what each job is, then what is recommended, then what is predicted for each GPU, until the page is full."""
    room, known = MOST_BYTES, len(jobs)
    for part, of in (
        ("job", lambda job: chain(_of_job(job), _of_gpus(job, snapshot))),
        ("recommendation", _of_recommendation),
        ("prediction", lambda job: _of_prediction(job, predicted_gpus)),
    ):
        named = []
        for job in jobs:
            values = [value for value in of(job) if value[2] is not None]
            size = sum(map(_bytes, values))
            if size <= room:
                room -= size
                named.append(job)
                yield from values
            elif len(job.gpus) < _LARGE or part != "job":
                break  # those that follow take as much
        yield "epochcast_analyzer_left_out_jobs", (part,), known - len(named)
        jobs = named


def _bytes(value: Value) -> int:
    """Of the line: labels are between quotes, with an equals sign and a comma."""
    name, labels, number = value
    return (
        len(name)
        + sum(len(key) + len(text) + 4 for key, text in zip(catalog()[name].labels, labels, strict=True))
        + len(f"{{}} {float(number or 0)}")
    )


def _recommendation(job: WatchedJob) -> Recommendation | None:
    return None if job.answer is None else job.answer.recommendation


def _hourly_savings(job: WatchedJob) -> float:
    rec = _recommendation(job)
    if job.epoch_s is None or rec is None or rec.current is None or rec.savings is None:
        return 0.0
    return rec.current.usd_per_hour * max(rec.savings.cost_ratio, 0.0)


def _of_gpus(job: WatchedJob, snapshot: Snapshot) -> Iterator[Value]:
    for uuid in job.gpus:
        if uuid not in snapshot.gone and (gpu := snapshot.gpus.get(uuid)) is not None and gpu.job == job.id:
            yield "epochcast_gpu_training_job_info", (uuid, job.id), 1


def _of_job(job: WatchedJob) -> Iterator[Value]:
    own = (job.id,)
    recommendation = _recommendation(job)
    current = None if recommendation is None else recommendation.current
    instance, cloud = ("", "") if current is None else (current.instance.name, current.instance.cloud)
    source = "" if job.answer is None else job.answer.here.profile.gpu
    simulated = "true" if job.simulated else "false"
    info = (job.id, job.title, job.grouped_by, source or job.gpu_model or "", job.unit or "", instance, cloud, simulated)
    yield "epochcast_job_info", info, 1
    yield "epochcast_job_active", own, job.active
    yield "epochcast_job_gpus", own, len(job.gpus)
    if job.epoch_s is not None:  # without seconds there is no unit
        yield f"epochcast_job_{job.unit}_seconds", own, job.epoch_s
    for kind, cycle in {cycle.kind: cycle for cycle in job.cycles}.items():  # of two of a kind the longer
        yield "epochcast_job_cycle_idle_ratio", (job.id, kind), cycle.idle_share
    if job.throughput is not None:
        yield "epochcast_job_samples_per_second", own, job.throughput.samples_per_s
        yield "epochcast_job_tokens_per_second", own, job.throughput.tokens_per_s
    yield "epochcast_job_epoch_confidence_ratio", own, job.confidence
    yield "epochcast_job_epochs_total", own, job.epochs_seen
    yield "epochcast_job_epoch_spread_ratio", own, job.spread


def _of_prediction(job: WatchedJob, most: int) -> Iterator[Value]:
    """Of the GPUs that are recommended first, then the fastest."""
    if job.answer is None:
        return
    yield "epochcast_job_predicted_from_seconds", (job.id,), job.answer.here.profile.epoch_s
    by_gpu = {prediction.gpu: prediction for prediction in job.answer.predictions}
    recommendation = _recommendation(job)
    rows = () if recommendation is None else recommendation.placements
    fastest = sorted(by_gpu, key=lambda gpu: by_gpu[gpu].ratio)
    for gpu in list(dict.fromkeys([*(row.instance.gpu for row in rows if row.instance.gpu in by_gpu), *fastest]))[:most]:
        prediction = by_gpu[gpu]
        yield "epochcast_job_predicted_ratio", (job.id, gpu), prediction.ratio
        yield "epochcast_job_predicted_low_ratio", (job.id, gpu), prediction.ratio_low
        yield "epochcast_job_predicted_high_ratio", (job.id, gpu), prediction.ratio_high


def _of_recommendation(job: WatchedJob) -> Iterator[Value]:
    """Where it should run; time and cost of one epoch or step, also where the answer is of the whole job."""
    recommendation = _recommendation(job)
    if recommendation is None:
        return
    if (row := recommendation.verdict.best) is not None:
        labels = (job.id, recommendation.objective)
        instance = row.instance
        place = (instance.name, instance.cloud, instance.region, instance.gpu, str(row.instances), row.market)
        yield "epochcast_job_recommended_instance_info", (*labels, *place), 1
        yield "epochcast_job_recommended_support_ratio", labels, row.prediction.support
        seconds = _seconds(job, row)
        if seconds is not None:
            yield "epochcast_job_recommended_seconds", labels, seconds
            yield "epochcast_job_recommended_usd", labels, seconds * row.usd_per_hour / 3600
    if recommendation.current is not None and job.epoch_s is not None:
        yield "epochcast_job_current_usd", (job.id,), job.epoch_s * recommendation.current.usd_per_hour / 3600
    if recommendation.savings is not None:
        yield "epochcast_job_savings_ratio", (job.id, "cost"), recommendation.savings.cost_ratio
        yield "epochcast_job_savings_ratio", (job.id, "time"), recommendation.savings.time_ratio


def _seconds(job: WatchedJob, row: Placement) -> float | None:
    """Of one epoch there, on as many GPUs as it has; the row's own may be of the whole job."""
    here = None if job.answer is None else job.answer.here.profile.epoch_s
    return None if here is None else here * row.prediction.ratio
