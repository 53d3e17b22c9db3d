"""``/metrics``: every family of the table is exported, with its kind, labels and help, and no other."""

import sqlite3
import time
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from epochcast.analyzer.jobs.watched import JobPlan
from epochcast.analyzer.live.health import SourceStatus, WatcherHealth, WatcherReport
from epochcast.analyzer.live.metrics import catalog
from epochcast.analyzer.live.state_store import GpuChange, StateStore
from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.process import ProcessMetrics, build
from epochcast.analyzer.service.watcher_process import WatcherProcess
from epochcast.analyzer.service.workers import Workers
from epochcast.detector import Cycle

from .conftest import fill, report


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a service as `serve` builds it, without its processes: all kinds of verdicts are in its store."""
    state = tmp_path_factory.mktemp("service") / "state.db"
    store = StateStore(state)
    fill(store)
    steps = report(3)
    assert steps.profile is not None
    by_step = replace(steps.profile, unit="step", epoch_s=0.25, epoch_s_low=0.24, epoch_s_high=0.26)
    by_steps = replace(
        steps, detection=replace(steps.detection, verdict="steps", period_s=0.25), epochs=(), epochs_seen=0, profile=by_step
    )
    store.write_gpus([GpuChange(by_steps)])
    saves = (Cycle("step", 0.5, 0.9, "even", 0.1, None), Cycle("checkpoint", 25.0, 0.9, "it saves", 0.2, 4.0))
    cycle = report(4)
    assert cycle.profile is not None
    by_cycle = replace(cycle.profile, unit="cycle", epoch_s=25.0, epoch_s_low=24.0, epoch_s_high=26.0)
    store.write_gpus(
        [GpuChange(replace(cycle, detection=replace(cycle.detection, period_s=25.0, cycles=saves), profile=by_cycle))]
    )
    source = SourceStatus("agent", "http://node-a:9911", True, "", 10, 1, time.time(), 0.5, 0.1)
    store.close()
    parts = build(Settings(state=state, hosts=["testserver"]))
    parts.analysis.watcher = lambda: WatcherReport(WatcherHealth(4, cpu_s=1.5), [source])
    parts.analysis.round()
    saving = next(job for job in parts.analysis.snapshot.jobs.values() if job.unit == "cycle")
    parts.analysis.set_plan(saving.id, JobPlan(samples_per_step=64, tokens_per_step=2048))
    parts.registry.register(ProcessMetrics(WatcherProcess((), state, 30.0, None), Workers(1, 2**30, 1.0), parts.store))
    client = TestClient(create_app(parts))
    client.get("/api/v1/gpus")  # a request is told on the page after it
    return client.get("/metrics").text


def test_every_exported_family_is_in_the_table_and_the_reverse(page: str) -> None:
    families = {family.name: family for family in text_string_to_metric_families(page)}
    # The parser takes _total off counters, and the process' own families are prometheus_client's.
    exported = {f"{name}_total" if family.type == "counter" else name for name, family in families.items()}
    exported -= {name for name in exported if name.endswith("_created")}
    assert exported == set(catalog())
    for metric in catalog().values():
        family = families[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.help), metric.name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels), metric.name


def test_open_metrics_are_told_to_whom_asks(client: TestClient) -> None:
    plain = client.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    client.get("/api/v1/gpus")
    other = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert other.headers["content-type"].startswith("application/openmetrics-text")
    assert other.text.endswith("# EOF\n")


def test_a_state_that_cannot_be_read_is_told_and_the_metrics_go_on(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(StateStore, "_rows", broken)
    uuid = client.get("/api/v1/gpus").json()["gpus"][0]["uuid"]
    response = client.get(f"/api/v1/gpus/{uuid}/epochs")
    assert response.status_code == 503
    assert "disk I/O error" in response.json()["detail"]
    assert client.get("/metrics").status_code == 200
