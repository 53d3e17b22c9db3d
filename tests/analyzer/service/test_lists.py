"""Long lists: every GPU, job and source once over all pages, filters, searches with any text, and bounds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient

from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.live.health import SourceStatus, WatcherHealth, WatcherReport
from epochcast.analyzer.live.state_store import GpuChange, StateStore
from epochcast.analyzer.plugins.registry import Registry
from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.parts import Parts
from epochcast.analyzer.service.workers import Workers
from epochcast.analyzer.telemetry.gpu_report import NOTHING, GpuDevice, Owner, Report
from lab.speed.service import page_sizes

from .conftest import made
from .test_api import got, problem

GPUS = 330
ODD = "a/b?q=1&after=%00 '\"><script>alert(1)</script> é"
"""What a node may be called."""


def watcher() -> WatcherReport:
    """A source for each node, and some that are gone."""
    polled = page_sizes.sources(GPUS, time.time())
    gone = [SourceStatus("agent", f"http://gone-{n:03d}", False, f"agent {n} does not answer", 9, 9) for n in range(150)]
    return WatcherReport(WatcherHealth(), [*polled, *gone])


def fill(store: StateStore) -> None:
    """Jobs of 1, 2, 4 and 8 GPUs without profiles, which are quick to analyse; a GPU that is idle; one on an odd node."""
    now = time.time()
    reports = [replace(report, profile=None) for report in page_sizes.reports(GPUS - 2, 8, now)]
    idle = replace(reports[0], device=GpuDevice("GPU-idle", "9", "NVIDIA A10G", "node-0000"), state="idle", owners=())
    odd = Report(GpuDevice("GPU-odd", "0", "Tesla T4", ODD), "searching", NOTHING, now - 9, 0, last_sample=now)
    odd = replace(odd, owners=(Owner(1, "python", slurm_job="31"),))
    store.write_gpus([GpuChange(report) for report in [*reports, idle, odd]], by_node=True)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, advisor: Advisor, workers: Workers, backends: Registry) -> Iterator[Parts]:
    """What a service of 330 GPUs answers from."""
    settings = Settings(state=tmp_path_factory.mktemp("large") / "state.db", hosts=["testserver"])
    yield from made(settings, fill, advisor, workers, backends, watcher)


@pytest.fixture
def client(large: Parts) -> TestClient:
    return TestClient(create_app(replace(large, registry=CollectorRegistry())), raise_server_exceptions=False)


def walked(client: TestClient, path: str, key: str) -> list[dict[str, Any]]:
    """All items of a list, by its own links."""
    items: list[dict[str, Any]] = []
    following: str | None = path
    while following is not None:
        answer = client.get(following).json()
        assert answer[key], "an empty page"
        items += answer[key]
        assert len(items) <= answer["total"]
        following = answer["next"]
    assert len(items) == answer["total"]
    return items


@pytest.mark.parametrize("limit", [1, 7, 100, 165, 330, 1000])
def test_each_gpu_and_job_is_on_one_page(client: TestClient, large: Parts, limit: int) -> None:
    snapshot = large.analysis.snapshot
    gpus = walked(client, f"/api/v1/gpus?limit={limit}", "gpus")
    assert [gpu["uuid"] for gpu in gpus] == list(snapshot.gpus)
    assert len(gpus) == GPUS
    jobs = walked(client, f"/api/v1/jobs?limit={limit}", "jobs")
    assert [job["id"] for job in jobs] == list(snapshot.jobs)
    assert [job["since"] for job in jobs] == sorted((job["since"] for job in jobs), reverse=True)
    sources = walked(client, f"/api/v1/sources?limit={limit}", "sources")
    assert sorted(source["name"] for source in sources) == sorted(source.name for source in watcher().sources)


def test_filters(client: TestClient, large: Parts) -> None:
    gpus = large.analysis.snapshot.gpus.values()
    job = max(large.analysis.snapshot.jobs.values(), key=lambda each: len(each.gpus))

    def uuids(**query: object) -> set[str]:
        answer = got(client, "/api/v1/gpus", limit=1000, **query)
        assert answer["total"] == len(answer["gpus"])
        return {gpu["uuid"] for gpu in answer["gpus"]}

    assert uuids(node="node-0003") == {gpu.uuid for gpu in gpus if gpu.node == "node-0003"}
    assert uuids(job=job.id) == set(job.gpus)
    assert uuids(state="idle") == {"GPU-idle"}
    assert uuids(state="answered", node="node-0000") == {gpu.uuid for gpu in gpus if gpu.node == "node-0000"} - {"GPU-idle"}
    assert uuids(q="a10") == {"GPU-idle"}
    assert uuids(q=job.title.upper()) == set(job.gpus)
    assert uuids(node="none") == set()
    jobs = {each["id"] for each in got(client, "/api/v1/jobs", node=job.nodes[0])["jobs"]}
    assert jobs == {each.id for each in large.analysis.snapshot.jobs.values() if job.nodes[0] in each.nodes}
    assert [each["id"] for each in got(client, "/api/v1/jobs", q=job.gpus[0].upper())["jobs"]] == [job.id]
    down = got(client, "/api/v1/sources", up=False, limit=1000)
    assert down["total"] == len(down["sources"]) == 150 + GPUS // 8 // 100
    assert got(client, "/api/v1/sources", q="GONE-007")["sources"][0]["error"] == "agent 7 does not answer"


@pytest.mark.parametrize("text", [ODD, "\\", "%", "+", "\x00", "ß", "a" * 200, "' OR 1=1 --", "{{7*7}}", "../../etc/passwd"])
@pytest.mark.parametrize("path", ["/api/v1/gpus", "/api/v1/jobs", "/api/v1/sources", "/"])
def test_any_text_may_be_searched(client: TestClient, path: str, text: str) -> None:
    answer = client.get(path, params={"q": text})
    assert answer.status_code == 200
    assert "<script>alert" not in answer.text or path.startswith("/api")
    if text == ODD and path == "/api/v1/gpus":
        assert [gpu["uuid"] for gpu in answer.json()["gpus"]] == ["GPU-odd"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"limit": 0}, "query limit is '0'"),
        ({"limit": 1001}, "query limit is '1001'"),
        ({"limit": "many"}, "query limit is 'many'"),
        ({"state": "busy"}, "query state is 'busy'"),
        ({"q": "a" * 201}, "at most 200 characters"),
        ({"after": "a" * 1001}, "at most 1000 characters"),
        ({"page": 2}, "does not know the query parameter 'page'"),
    ],
)
def test_bad_parameters_are_one_sentence(client: TestClient, query: dict[str, object], said: str) -> None:
    assert said in problem(client.get("/api/v1/gpus", params=query), 422)


def test_health_names_what_is_wrong_first_and_counts_the_rest(client: TestClient, large: Parts) -> None:
    large.analysis.round()  # on a busy machine the last one may be so long ago that health says so
    health = got(client, "/api/v1/health")
    assert health["sources_down"] == 150
    assert health["sources_up"] + health["sources_down"] == len(watcher().sources)
    assert len(health["notes"]) == 21
    assert health["notes"][-1].startswith("130 more; /api/v1/sources?up=false")
