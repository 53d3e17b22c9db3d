"""The metrics of jobs say what the API says, and are those of the catalogue."""

from __future__ import annotations

import time

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from epochcast.analyzer.answers.answer_schema import JobPlan
from epochcast.analyzer.live.metrics import GONE_S
from epochcast.analyzer.service.analysis import Analysis
from epochcast.analyzer.service.job_metrics import JobMetrics
from epochcast.detector import Cycle

from ...jobs.made_reports import BEGAN, report
from .conftest import MakeAnalysis

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def page(analysis: Analysis) -> tuple[Samples, set[str]]:
    registry = CollectorRegistry()
    registry.register(JobMetrics(analysis))
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
        assert job.prediction and job.recommendation and job.recommendation.cheapest and job.recommendation.savings
        a10g = next(one for one in job.prediction.predictions if one.gpu == "A10G")
        assert value(samples, "epochcast_job_predicted_seconds", target_gpu="A10G", **own) == a10g.seconds
        assert value(samples, "epochcast_job_predicted_low_seconds", target_gpu="A10G", **own) == a10g.low
        assert value(samples, "epochcast_job_predicted_high_seconds", target_gpu="A10G", **own) == a10g.high
        assert value(samples, "epochcast_job_predicted_low_ratio", target_gpu="A10G", **own) == a10g.ratio_low
        # Of one epoch, also where the answer is of all 90.
        usd = value(samples, "epochcast_job_recommended_usd", objective="cost", **own)
        assert usd == pytest.approx(job.recommendation.cheapest.usd)
        assert value(samples, "epochcast_job_current_usd", **own) == pytest.approx(30 / 3600 * 2.176)
        place = {"objective": "cost", "instance_type": job.recommendation.cheapest.instance, "instances": "1"}
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
    assert not names & {"epochcast_job_predicted_seconds", "epochcast_job_epoch_seconds", "epochcast_job_current_usd"}


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
