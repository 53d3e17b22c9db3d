"""What agents and analyzers of the modelled fleet export, as functions of time.

A Prometheus that holds its history (`write_history`, `promtool tsdb create-blocks-from openmetrics`) answers the dashboards'
queries: their tests compare the answers with what the model says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple, TextIO

from epochcast.agent.catalog import Part
from epochcast.agent.catalog import catalog as agent_catalog
from lab.speed.service.modelled_fleet import (
    COUNTED_SINCE,
    IDLE,
    LEVELS,
    RATIOS,
    SAVINGS_OF_ALL,
    TICK,
    WINDOW_S,
    Gpu,
    Job,
    spare,
)


class Series(NamedTuple):
    """One series; ``value`` is of a moment [unix s], None where there is none then."""

    name: str
    labels: dict[str, str]
    value: Callable[[float], float | None]


def always(value: float) -> Callable[[float], float]:
    """The same at each moment."""
    return lambda t: value


def counted(rate: float) -> Callable[[float], float]:
    """What grows by so much a second, since long before any job."""
    return lambda t: rate * (t - COUNTED_SINCE)


def agent_series(jobs: Iterable[Job], end: float) -> Iterator[Series]:
    """Yield what the agents of the fleet export."""
    for gpu in (*(gpu for job in jobs for gpu in job.gpus), spare(end)):
        labels = {
            "job": "epochcast-agent",
            "instance": gpu.node if gpu.pushed else f"{gpu.node}:9911",
            "gpu": str(gpu.index),
            "uuid": gpu.uuid,
            "name": gpu.name,
        }
        yield from _measured(gpu, labels)
        if gpu.pushed:
            continue
        yield Series("epochcast_gpu_up", labels, always(1.0))
        yield Series("epochcast_gpu_missed_ticks_total", labels, counted(0.02))
        yield Series("epochcast_gpu_xid_errors_total", {**labels, "xid": "31"}, always(2.0))
        blank = {key: value for key, value in labels.items() if key != "name"} | {"metric": "fp64_active"}
        yield Series("epochcast_agent_blanks_total", blank, counted(0.05))
        yield Series("epochcast_agent_implausible_values_total", blank, counted(0.01))
    for node, source, hertz in (("gpu-a", "gpm", 10.0), ("gpu-b", "dcgm", 9.7)):
        own = {"job": "epochcast-agent", "instance": f"{node}:9911"}
        of = {**own, "source": source}
        yield Series("up", own, always(1.0))
        yield Series("epochcast_gpus_expected", own, always(8.0))
        yield Series("epochcast_gpus_present", own, always(8.0))
        yield Series("epochcast_agent_effective_hertz", of, always(hertz))
        yield Series("epochcast_agent_target_hertz", of, always(10.0))
        yield Series("epochcast_agent_last_sample_timestamp_seconds", of, lambda t: t - 0.2)
        played = {**own, "source": "replay"}
        yield Series("epochcast_agent_last_sample_timestamp_seconds", played, always(1.7e9))
        for name, rate in (("missed_ticks", 0.1), ("governed_ticks", 0.0), ("read_errors", 0.01)):
            yield Series(f"epochcast_agent_{name}_total", of, counted(rate))
        for name in ("tick_seconds", "tick_lateness_seconds"):
            yield from _histogram(f"epochcast_agent_{name}", of, TICK, 10.0)
        yield from _process(own, 0.012, 41e6)


def analyzer_series(jobs: Iterable[Job], end: float) -> Iterator[Series]:
    """Yield what node analyzers and the service of the fleet export."""
    service = {"job": "epochcast-analyzer", "instance": "central:9913"}
    node = {"job": "epochcast-node", "instance": "gpu-a:9912"}
    for job in jobs:
        for gpu in job.gpus:
            yield from _detector(gpu)
            who = {"uuid": gpu.uuid, "training_job": job.id}
            yield Series(
                "epochcast_gpu_training_job_info", {**service, **who}, partial(lambda g, t: 1.0 if t >= g.began else None, gpu)
            )
        yield from _job(job, service)
    yield from _detector(spare(end))
    for own, gpus in ((node, 4), (service, 4)):
        yield Series("up", own, always(1.0))
        yield Series("epochcast_analyzer_watched_gpus", own, always(gpus))
        yield Series("epochcast_analyzer_backlog_samples", own, always(20.0 * gpus))
        for name, rate in (("backlog_dropped_samples", 0.0), ("detection_cpu_seconds", 0.006), ("store_errors", 0.0)):
            yield Series(f"epochcast_analyzer_{name}_total", own, counted(rate))
        yield from _process(own, 0.03, 160e6)
    sources = ((node, "agent", "gpu-a", 1.0), (service, "node", "gpu-a", 1.0), (service, "agent", "gpu-b", 1.0))
    for own, kind, source, up in (*sources, (service, "prometheus", "metrics.example.org", 0.0)):
        of = {**own, "kind": kind, "source": source}
        yield Series("epochcast_analyzer_source_up", of, always(up))
        yield Series("epochcast_analyzer_source_lag_seconds", of, always(1.4 if up else 900.0))
        yield Series("epochcast_analyzer_source_clock_offset_seconds", of, always(0.2))
        yield Series("epochcast_analyzer_source_polls_total", of, counted(0.5))
        yield Series("epochcast_analyzer_source_errors_total", of, counted(0.0 if up else 0.5))
    for own, states in ((node, {"up": 1, "down": 0}), (service, {"up": 2, "down": 1})):
        for state, number in states.items():
            yield Series("epochcast_analyzer_sources", {**own, "state": state}, always(number))
        yield Series("epochcast_analyzer_left_out_sources", own, always(0.0))
    # Some jobs are too small to have metrics of their own: the sums have them.
    yield Series("epochcast_analyzer_active_jobs", service, always(len(tuple(jobs)) + 3.0))
    yield Series("epochcast_analyzer_possible_savings_usd_per_hour", service, always(SAVINGS_OF_ALL))
    for part, count in (("job", 3.0), ("recommendation", 4.0), ("prediction", 5.0)):
        yield Series("epochcast_analyzer_left_out_jobs", {**service, "part": part}, always(count))
    yield Series("epochcast_analyzer_watcher_up", service, always(1.0))
    yield Series("epochcast_analyzer_damaged_state_files", service, always(0.0))
    yield Series("epochcast_analyzer_oldest_price_timestamp_seconds", service, always(end - 40 * 86400.0))
    for name, steps in (("watcher_restarts", 1), ("analysis_errors", 2), ("worker_restarts", 3)):
        yield Series(
            f"epochcast_analyzer_{name}_total", service, partial(lambda n, t: float(n if t > end - 1800 else 0), steps)
        )
    for route, status, rate in (("/api/v1/jobs", "200", 2.0), ("/api/v1/predictions", "200", 1.0), ("/", "200", 0.4)):
        of = {**service, "method": "GET", "route": route, "status": status}
        yield Series("epochcast_analyzer_requests_total", of, counted(rate))
        yield from _histogram("epochcast_analyzer_request_seconds", {**service, "route": route}, (0.005, 0.01), rate)
    yield from _histogram("epochcast_analyzer_analysis_seconds", service, (0.05, 0.1), 0.4)
    refused = {**service, "reason": "busy"}
    yield Series("epochcast_analyzer_refused_requests_total", refused, counted(0.3))
    straggler = {
        "alertname": "EpochcastStragglerGpu",
        "severity": "warning",
        "alertstate": "firing",
        "training_job": "slurm-4711",
    }
    yield Series("ALERTS", straggler, always(1.0))
    yield Series("ALERTS", {**straggler, "alertname": "EpochcastEpochsSlower", "alertstate": "pending"}, always(1.0))
    yield Series("ALERTS", {**straggler, "alertname": "DiskFull"}, always(1.0))
    yield from _process({"job": "another-exporter", "instance": "gpu-a:9100"}, 0.5, 1e9)


def _measured(gpu: Gpu, labels: dict[str, str]) -> Iterator[Series]:
    for column, metric in agent_catalog().items():
        if column not in LEVELS:
            continue
        name = metric.prometheus
        if metric.kind == "counter":
            yield Series(f"{name.removesuffix('_total')}_total", labels, partial(gpu.integral, column))
            continue
        parts: dict[Part, tuple[str, Callable[[float], float]]] = {
            "last": (name, partial(gpu.level, column)),
            "avg": (f"{name}_avg", partial(lambda c, t: gpu.mean(c, t - WINDOW_S, t), column)),
            # One reading in a window that is unlike the others: what only ten readings a second see.
            "min": (f"{name}_min", partial(lambda c, t: 0.8 * gpu.level(c, t), column)),
            "max": (f"{name}_max", partial(lambda c, t: 1.05 * gpu.level(c, t), column)),
            "seconds": (f"{name.removesuffix('_ratio')}_seconds_total", partial(gpu.integral, column)),
        }
        for part in ("last",) if gpu.pushed else metric.shown:
            own, value = parts[part]
            yield Series(own, labels, value)


def _detector(gpu: Gpu) -> Iterator[Series]:
    job, instance = ("epochcast-node", f"{gpu.node}:9912") if gpu.node_detects else ("epochcast-analyzer", "central:9913")
    labels = {"job": job, "instance": instance, "gpu": str(gpu.index), "uuid": gpu.uuid, "name": gpu.name, "node": gpu.node}

    def answered(value: float) -> Callable[[float], float | None]:
        return lambda t: value if gpu.state(t) == "answered" else None

    for state in ("idle", "searching", "answered"):
        yield Series(
            "epochcast_gpu_detector_state", {**labels, "state": state}, partial(lambda s, t: float(gpu.state(t) == s), state)
        )
    yield Series(
        "epochcast_gpu_epoch_confidence_ratio", labels, lambda t: gpu.confidence if gpu.state(t) == "answered" else 0.0
    )
    yield Series("epochcast_gpu_epochs_total", labels, lambda t: float(gpu.ended(t)))
    yield Series("epochcast_gpu_job_start_timestamp_seconds", labels, always(gpu.began))
    yield Series("epochcast_gpu_detector_last_sample_timestamp_seconds", labels, lambda t: t - 0.5)
    yield Series("epochcast_gpu_detector_samples_total", labels, counted(10.0))
    yield Series("epochcast_gpu_detector_dropped_samples_total", labels, counted(0.01))
    for unit, (kind, idle) in IDLE.items():
        seconds = getattr(gpu, f"{unit}_s")
        if seconds is not None:
            yield Series(f"epochcast_gpu_{unit}_seconds", labels, answered(seconds))
            yield Series("epochcast_gpu_cycle_idle_ratio", {**labels, "cycle": kind}, answered(idle))
    if gpu.epoch_s is not None:

        def newest(moment: float) -> float | None:
            done = gpu.ended(moment)
            return None if done < 2 else float(gpu.ends[done - 1] - gpu.ends[done - 2])

        yield Series("epochcast_gpu_last_epoch_seconds", labels, newest)
        yield Series(
            "epochcast_gpu_last_epoch_end_timestamp_seconds",
            labels,
            lambda t: float(gpu.ends[gpu.ended(t) - 1]) if gpu.ended(t) else None,
        )


def _job(job: Job, service: dict[str, str]) -> Iterator[Series]:
    labels = {**service, "training_job": job.id}
    first = job.gpus[0]

    def known(value: float | None) -> Callable[[float], float | None]:
        return lambda t: value if first.state(t) == "answered" else None

    def began(value: float) -> Callable[[float], float | None]:
        return lambda t: value if t >= first.began else None

    unit = "epoch" if first.epoch_s else "step" if first.step_s else "cycle" if first.cycle_s else ""
    what = {"title": job.title, "grouped_by": "slurm_job", "source_gpu": job.source_gpu, "unit": unit}
    rented = {"instance_type": job.instance_type, "cloud": "aws", "simulated": "false"}
    yield Series("epochcast_job_info", {**labels, **what, **rented}, began(1.0))
    yield Series("epochcast_job_active", labels, began(1.0))
    yield Series("epochcast_job_gpus", labels, began(float(len(job.gpus))))
    yield Series("epochcast_job_epoch_confidence_ratio", labels, began(min(gpu.confidence for gpu in job.gpus)))
    yield Series("epochcast_job_epochs_total", labels, lambda t: float(min(gpu.ended(t) for gpu in job.gpus)))
    yield Series("epochcast_job_epoch_spread_ratio", labels, known(job.spread))
    if unit:
        yield Series(f"epochcast_job_{unit}_seconds", labels, known(job.seconds))
        kind, idle = IDLE[unit]
        yield Series("epochcast_job_cycle_idle_ratio", {**labels, "cycle": kind}, known(idle))
    if first.step_s is not None:
        yield Series("epochcast_job_samples_per_second", labels, known(256 / first.step_s))
        yield Series("epochcast_job_tokens_per_second", labels, known(256 * 2048 / first.step_s))
    if job.seconds is not None:
        yield Series("epochcast_job_predicted_from_seconds", labels, known(job.seconds))
    for target in RATIOS:
        ratio, low, high, _ = job.ratio(target)
        there = {**labels, "target_gpu": target}
        for end, value in (("", ratio), ("_low", low), ("_high", high)):
            yield Series(f"epochcast_job_predicted{end}_ratio", there, began(value))
    if job.usd is None or job.seconds is None:
        return
    yield Series("epochcast_job_current_usd", labels, known(job.usd))
    for objective, (instance, gpu, cost, time) in job.recommended.items():
        by = {**labels, "objective": objective}
        place = {"cloud": "aws", "region": "us-east-1", "market": "on-demand", "instances": "1"}
        info = {**by, **place, "instance_type": instance, "target_gpu": gpu}
        if objective == "cost":  # where the service says that it should run
            yield Series("epochcast_job_recommended_instance_info", info, known(1.0))
            yield Series("epochcast_job_recommended_usd", by, known(cost * job.usd))
            yield Series("epochcast_job_recommended_support_ratio", by, known(0.9))
            yield Series("epochcast_job_recommended_seconds", by, known(time * job.seconds))
        yield Series("epochcast_job_savings_ratio", by, known(1 - (cost if objective == "cost" else time)))


def _histogram(name: str, labels: dict[str, str], within: tuple[float, float], rate: float) -> Iterator[Series]:
    """Yield a histogram all of whose observations fall between two bounds, evenly."""
    low, high = within
    yield Series(f"{name}_bucket", {**labels, "le": repr(low)}, always(0.0))
    for bound in (repr(high), "1.0", "+Inf"):
        yield Series(f"{name}_bucket", {**labels, "le": bound}, counted(rate))
    yield Series(f"{name}_count", labels, counted(rate))
    yield Series(f"{name}_sum", labels, counted(rate * (low + high) / 2))


def _process(labels: dict[str, str], cores: float, rss: float) -> Iterator[Series]:
    yield Series("process_cpu_seconds_total", labels, counted(cores))
    yield Series("process_resident_memory_bytes", labels, always(rss))


def write_history(series: Iterable[Series], moments: Iterable[float], file: TextIO) -> None:
    """Write samples as OpenMetrics text, for ``promtool tsdb create-blocks-from openmetrics``, which wants a last ``# EOF``."""
    moments = list(moments)
    for one in series:
        labels = ",".join(f'{key}="{value}"' for key, value in one.labels.items())
        for moment in moments:
            value = one.value(moment)
            if value is not None:
                file.write(f"{one.name}{{{labels}}} {float(value)!r} {float(moment)!r}\n")
