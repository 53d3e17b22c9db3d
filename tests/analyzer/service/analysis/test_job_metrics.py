"""The metrics of jobs say what the API says, and are those of the catalogue."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import date

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from epochcast.analyzer.jobs.watched import JobPlan
from epochcast.analyzer.live.metrics import GONE_S
from epochcast.analyzer.service.analysis import Analysis, Snapshot
from epochcast.analyzer.service.job_metrics import JobMetrics
from epochcast.detector import Cycle

from ...jobs.made_reports import BEGAN, report
from .conftest import MakeAnalysis

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def page(analysis: Analysis) -> tuple[Samples, set[str]]:
    registry = CollectorRegistry()
    registry.register(JobMetrics(analysis, 7))
    analysis.round()
    families = list(text_string_to_metric_families(generate_latest(registry).decode()))
    samples = {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}
    return samples, {one.name for family in families for one in family.samples}


def value(samples: Samples, name: str, **labels: str) -> float:
    (found,) = [number for (one, own), number in samples.items() if one == name and labels.items() <= dict(own).items()]
    return found


def test_a_cycle_has_its_seconds_its_idle_share_and_its_throughput(analysis: MakeAnalysis) -> None:
    saves = (Cycle("step", 0.5, 0.9, "even", 0.1, None), Cycle("checkpoint", 25.0, 0.9, "it saves", 0.2, 4.0))
    found = analysis(report(period=25.0, cycles=saves))
    (job,) = found.snapshot.jobs.values()
    found.set_plan(job.id, JobPlan(samples_per_step=64, tokens_per_step=2048))
    samples, _ = page(found)
    own = {"training_job": job.id}
    assert value(samples, "epochcast_job_cycle_seconds", **own) == 25.0
    assert value(samples, "epochcast_job_cycle_idle_ratio", **own, cycle="checkpoint") == 0.2
    assert value(samples, "epochcast_job_samples_per_second", **own) == 128.0
    assert value(samples, "epochcast_job_tokens_per_second", **own) == 4096.0


def test_values_are_those_of_the_snapshot(analysis: MakeAnalysis) -> None:
    found = analysis(report(instance="g4dn.8xlarge", cloud="aws"))
    (job,) = found.snapshot.jobs.values()
    for epochs in (None, 90):
        if epochs:
            found.set_plan(job.id, JobPlan(epochs=epochs))
        samples, _ = page(found)
        own = {"training_job": job.id}
        assert value(samples, "epochcast_job_epoch_seconds", **own) == 30.0
        assert value(samples, "epochcast_job_epochs_total", **own) == 8
        assert value(samples, "epochcast_job_info", instance_type="g4dn.8xlarge", unit="epoch", simulated="true", **own) == 1
        assert value(samples, "epochcast_gpu_training_job_info", uuid="GPU-a", **own) == 1
        assert job.answer and job.answer.recommendation
        first = job.answer.recommendation.placements[0].instance.gpu
        (there,) = (one for one in job.answer.predictions if one.gpu == first)
        assert value(samples, "epochcast_job_predicted_ratio", target_gpu=first, **own) == there.ratio
        assert value(samples, "epochcast_job_predicted_low_ratio", target_gpu=first, **own) == there.ratio_low
        assert value(samples, "epochcast_job_predicted_from_seconds", **own) == 30.0
        assert len([name for name, labels in samples if dict(labels).get("training_job") == job.id]) <= 45
        # Of one epoch, also where the answer is of all 90.
        usd = value(samples, "epochcast_job_recommended_usd", objective="cost", **own)
        answer = found.snapshot.jobs[job.id].answer
        best = answer and answer.recommendation and answer.recommendation.verdict.best
        assert best and usd == pytest.approx(30 * best.prediction.ratio * best.usd_per_hour / 3600)
        assert value(samples, "epochcast_job_current_usd", **own) == pytest.approx(30 / 3600 * 2.176)
        place = {"objective": "cost", "instance_type": best.instance.name, "instances": "1"}
        assert value(samples, "epochcast_job_recommended_instance_info", **place) == 1


def test_jobs_that_ended_are_not_exported_and_ratios_have_no_seconds(analysis: MakeAnalysis) -> None:
    analysis(report())
    found = analysis(report(verdict="none", since=BEGAN + 9000))
    assert len(found.snapshot.jobs) == 2
    samples, names = page(found)
    assert {dict(labels)["training_job"] for name, labels in samples if name == "epochcast_job_info"} == {
        found.snapshot.gpus["GPU-a"].job
    }
    assert "epochcast_job_predicted_ratio" in names
    assert not names & {"epochcast_job_predicted_from_seconds", "epochcast_job_epoch_seconds", "epochcast_job_current_usd"}


def test_what_nobody_has_told_of_for_a_day_is_answered_and_no_longer_exported(
    analysis: MakeAnalysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = analysis(report("GPU-0"))
    assert {"epochcast_job_info", "epochcast_gpu_training_job_info"} <= page(found)[1]
    later = time.time() + GONE_S + 1
    monkeypatch.setattr("epochcast.analyzer.service.analysis.time.time", lambda: later)
    names = page(found)[1]
    assert not {"epochcast_job_info", "epochcast_gpu_training_job_info"} & names
    assert len(found.snapshot.jobs) == len(found.snapshot.gpus) == 1


@dataclass
class Fleet:
    """In the place of the analysis: so many copies of a job, with more and more GPUs each."""

    snapshot: Snapshot
    errors: int = 0
    oldest_price: date = date(2026, 1, 1)
    on_round: object = None


def fleet_of(snapshot: Snapshot, sizes: list[int]) -> Fleet:
    """A fleet with jobs of these sizes, all like the one in ``snapshot``."""
    (job,), (gpu,) = snapshot.jobs.values(), snapshot.gpus.values()
    jobs, gpus = {}, {}
    for number, size in enumerate(sizes):
        name = f"slurm-{400_000 + number}"
        own = [f"GPU-8f2c1f0a-95d3-4b1e-a4c5-{number:06d}{place:06d}" for place in range(size)]
        jobs[name] = replace(job, id=name, title=f"Slurm job {number}", gpus=tuple(own), active=number % 50 > 0)
        gpus |= {uuid: replace(gpu, uuid=uuid, job=name) for uuid in own}
    return Fleet(replace(snapshot, jobs=jobs, gpus=gpus))


def scrape(fleet: Fleet) -> tuple[str, Samples]:
    """The page of a fleet, and its samples."""
    registry = CollectorRegistry()
    registry.register(JobMetrics(fleet, 7))  # type: ignore[arg-type]
    text = generate_latest(registry).decode()
    families = text_string_to_metric_families(text)
    return text, {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


SIZES = {
    "64 GPUs": [4] * 16,
    "512 GPUs": [1, 2, 4, 8, 16, 32, 64] * 4,
    "10,000 GPUs": [1, 2, 4, 8, 16, 32, 64] * 78 + [1] * 94,
    "10,000 jobs of one GPU": [1] * 10_000,
    "a job of 30,000 GPUs": [1, 30_000, 2],
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_a_page_has_a_bound_and_says_what_it_leaves_out(analysis: MakeAnalysis, sizes: list[int]) -> None:
    fleet = fleet_of(analysis(report(instance="g4dn.8xlarge", cloud="aws")).snapshot, sizes)
    text, samples = scrape(fleet)
    assert len(text) < 1_750_000
    jobs = fleet.snapshot.jobs
    names = {"job": "info", "recommendation": "current_usd", "prediction": "predicted_ratio"}
    named: dict[str, set[str]] = {
        part: {dict(labels)["training_job"] for one, labels in samples if one == f"epochcast_job_{name}"}
        for part, name in names.items()
    }
    for part, own in named.items():
        assert value(samples, "epochcast_analyzer_left_out_jobs", part=part) == len(jobs) - len(own)
    assert named["prediction"] <= named["recommendation"] <= named["job"]
    # Those that run before those that do not, the largest before the smaller.
    weights = {job: (jobs[job].active, len(jobs[job].gpus)) for job in jobs}
    for own in named.values():
        if own and len(own) < len(jobs) and max(sizes) < 1000:
            assert min(weights[job] for job in own) >= max(weights[job] for job in set(jobs) - own)
    # The GPUs of each job that is there, and no others.
    mapped = {dict(labels)["uuid"] for one, labels in samples if one == "epochcast_gpu_training_job_info"}
    assert mapped == {uuid for job in named["job"] for uuid in jobs[job].gpus}
    # The sums are of all.
    active = [job for job in jobs.values() if job.active]
    assert value(samples, "epochcast_analyzer_active_jobs") == len(active)
    job = active[0]
    assert job.answer and job.answer.recommendation
    where = job.answer.recommendation
    assert where.current and where.savings
    each = where.current.usd_per_hour * max(where.savings.cost_ratio, 0.0)
    assert value(samples, "epochcast_analyzer_possible_savings_usd_per_hour") == pytest.approx(len(active) * each)
    if len(sizes) < 20:
        assert sum(len(jobs) - len(own) for own in named.values()) == (
            0 if max(sizes) < 1000 else 3
        )  # the one job, in each part
