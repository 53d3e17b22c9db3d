"""Metrics of jobs: what the newest snapshot says of each, and of the prices that recommendations rest on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, time

from prometheus_client import Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ..answers.answer_schema import InstanceAnswer, JobAnswer
from ..live.metrics import Value, catalog, families
from .analysis import Analysis, Snapshot

_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class JobMetrics(Collector):
    """Collects the families of metrics.toml that are of jobs and of the analysis."""

    def __init__(self, analysis: Analysis) -> None:
        """Tell of ``analysis``, whose rounds are timed from now on."""
        self._analysis = analysis
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
        for gpu in snapshot.gpus.values():
            if gpu.job is not None and gpu.uuid not in snapshot.gone:
                yield "epochcast_gpu_training_job_info", (gpu.label, gpu.uuid, gpu.name, gpu.node, gpu.job), 1
        for job in _current_jobs(snapshot):
            yield from _of_job(job)


def _current_jobs(snapshot: Snapshot) -> Iterable[JobAnswer]:
    """Jobs that a GPU runs or ran last, if it is not gone: the others have ended, and stay on the page alone."""
    newest = {gpu.job for gpu in snapshot.gpus.values() if gpu.uuid not in snapshot.gone}
    return [job for job in snapshot.jobs.values() if job.id in newest]


def _of_job(job: JobAnswer) -> Iterator[Value]:
    own = (job.id,)
    current = None if job.recommendation is None else job.recommendation.current
    instance, cloud = ("", "") if current is None else (current.instance, current.cloud)
    source = "" if job.prediction is None else job.prediction.source
    simulated = "true" if job.simulated else "false"
    info = (job.id, job.title, job.grouped_by, source or job.gpu_model or "", job.unit or "", instance, cloud, simulated)
    yield "epochcast_job_info", info, 1
    yield "epochcast_job_active", own, job.active
    yield "epochcast_job_gpus", own, len(job.gpus)
    if job.epoch_s is not None:  # without seconds there is no unit
        yield f"epochcast_job_{job.unit}_seconds", own, job.epoch_s
    for kind, cycle in {cycle.kind: cycle for cycle in job.cycles}.items():  # of two of a kind the longer
        yield "epochcast_job_cycle_idle_ratio", (job.id, kind), cycle.idle_share
    yield "epochcast_job_samples_per_second", own, job.samples_per_s
    yield "epochcast_job_tokens_per_second", own, job.tokens_per_s
    yield "epochcast_job_epoch_confidence_ratio", own, job.confidence
    yield "epochcast_job_epochs_total", own, job.epochs_seen
    yield "epochcast_job_epoch_spread_ratio", own, job.spread
    yield from _of_prediction(job)
    yield from _of_recommendation(job)


def _of_prediction(job: JobAnswer) -> Iterator[Value]:
    for prediction in () if job.prediction is None else job.prediction.predictions:
        labels = (job.id, prediction.gpu)
        yield "epochcast_job_predicted_ratio", labels, prediction.ratio
        yield "epochcast_job_predicted_low_ratio", labels, prediction.ratio_low
        yield "epochcast_job_predicted_high_ratio", labels, prediction.ratio_high
        yield "epochcast_job_prediction_support_ratio", labels, prediction.support
        if prediction.seconds is not None and prediction.low is not None and prediction.high is not None:
            yield "epochcast_job_predicted_seconds", labels, prediction.seconds
            yield "epochcast_job_predicted_low_seconds", labels, prediction.low
            yield "epochcast_job_predicted_high_seconds", labels, prediction.high


def _of_recommendation(job: JobAnswer) -> Iterator[Value]:
    """Both objectives; time and cost of one epoch or step, also where the answer is of the whole job."""
    recommendation = job.recommendation
    if recommendation is None:
        return
    for objective, row in (("cost", recommendation.cheapest), ("time", recommendation.fastest)):
        if row is None:
            continue
        labels = (job.id, objective)
        place = (row.instance, row.cloud, row.region, row.gpu, str(row.instances), row.market)
        yield "epochcast_job_recommended_instance_info", (*labels, *place), 1
        seconds = _seconds(job, row)
        if seconds is not None:
            yield "epochcast_job_recommended_seconds", labels, seconds
            yield "epochcast_job_recommended_usd", labels, seconds * row.usd_per_hour / 3600
    if recommendation.current is not None and job.epoch_s is not None:
        yield "epochcast_job_current_usd", (job.id,), job.epoch_s * recommendation.current.usd_per_hour / 3600
    if recommendation.savings is not None:
        yield "epochcast_job_savings_ratio", (job.id, "cost"), recommendation.savings.cost_ratio
        yield "epochcast_job_savings_ratio", (job.id, "time"), recommendation.savings.time_ratio


def _seconds(job: JobAnswer, row: InstanceAnswer) -> float | None:
    """Of one epoch there, on as many GPUs as it has; the row's own may be of the whole job."""
    here = None if job.prediction is None else job.prediction.epoch_s
    return None if here is None else here * row.ratio
