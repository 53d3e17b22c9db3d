"""What the page shows, read as HTML."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from epochcast.analyzer.jobs.questions import example_profile
from epochcast.analyzer.jobs.recommend import Savings
from epochcast.analyzer.live.health import SourceStatus, WatcherHealth, WatcherReport
from epochcast.analyzer.live.state_store import GpuChange, StateStore
from epochcast.analyzer.service.analysis import Analysis
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, GpuDevice, Report
from epochcast.detector import Cycle, Detection
from epochcast.regressor.profile_json import read_profile

from .fleet import fill


def test_without_gpus_it_says_how_to_add_one(client_of: Any) -> None:
    shown = client_of(lambda store: None).get("/").text
    assert "No GPU has been seen yet" in shown
    assert "epochcast-agent install" in shown
    assert "[[agents]]" in shown
    assert "in a checkout run <code>pip install .</code>" in shown


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        ("GPU-node-4-1", ["searching", "usually takes 4.5 epochs", "Nothing can be predicted yet"]),
        ("GPU-node-3-0", ["steps found", "per step", "steps are not counted"]),
        ("GPU-node-3-1", ["no epochs", "there are only ratios", "time ratio"]),
        ("GPU-node-4-0", ["ended", "One process uses this GPU."]),
    ],
)
def test_each_state_has_its_words(fleet_client: TestClient, gpu: str, words: list[str]) -> None:
    client = fleet_client
    job = client.get(f"/api/v1/gpus/{gpu}").json()["job"]
    shown = client.get(f"/jobs/{job}").text
    for word in words:
        assert word in shown
    assert "simulated" in shown


def test_a_plan_makes_it_the_whole_job(client_of: Any) -> None:
    def planned(store: StateStore) -> None:
        fill(store)
        store.write_plan("slurm-1234", {"epochs": 90})

    client = client_of(planned)
    shown = client.get("/jobs/slurm-1234").text
    assert "for 90 epochs" in shown
    assert "of 90" in shown
    cheapest = client.get("/api/v1/jobs/slurm-1234").json()["answer"]["recommendation"]["verdict"]["best"]
    assert f'value="{cheapest["usd"]["value"]:.12g}"' in shown
    assert cheapest["seconds"]["value"] > 3600


def test_a_gpu_that_says_nothing_any_more_is_shown_so(client_of: Any) -> None:
    def silent(store: StateStore) -> None:
        fill(store)
        report: Report = store.reports()["GPU-node-2-0"]
        store.write_gpus([GpuChange(replace(report, last_sample=time.time() - 900))])

    shown = client_of(silent).get("/").text
    assert "No sample for 15\N{NO-BREAK SPACE}min" in shown


def test_without_telemetry_nothing_is_called_well(client_of: Any) -> None:
    def over(store: StateStore) -> None:
        fill(store)
        old_s = 86400.0 * 1104
        reports = [replace(report, last_sample=time.time() - old_s) for report in store.reports().values()]
        store.write_gpus(map(GpuChange, reports))

    def files(lag_s: float) -> Callable[[], WatcherReport]:
        return lambda: WatcherReport(WatcherHealth(), [SourceStatus("files", "/traces", True, "", 9, 0, None, lag_s)])

    well = client_of(fill, files(0.4)).get("/").text
    silent = client_of(over, files(86400.0 * 1104)).get("/").text
    empty = client_of(lambda store: None).get("/").text
    assert "all well" in well
    for page in (silent, empty):
        assert "all well" not in page and "no telemetry" in page
        assert 'class="badge good"' not in page and 'class="gain"' not in page
    assert "No GPU is reporting now; the newest sample is 1,104\N{NO-BREAK SPACE}d old." in silent
    assert "nothing new</span> <b>/traces</b>" in silent
    states = re.findall(r'<td role="cell" data-label="state"><div><span class="badge \w+" title="[^"]*">([^<]+)<', silent)
    assert sorted(states) == ["ended", *["silent"] * 5], "what no GPU reports is not searching, and has no epochs now"


def _report(**more: Any) -> Report:
    """A GPU of a job with eleven epochs that is not sure how long they take."""
    now = time.time()
    profile = replace(read_profile(example_profile()), epoch_s=None, unit=None, epoch_s_low=None, epoch_s_high=None)
    epochs = tuple(EpochRecord(now - 60 * (11 - n), now - 60 * (10 - n), 0.7, now - 660) for n in range(11))
    report = Report(
        GpuDevice("GPU-unsure", "0", "Tesla T4", "node-9", "replay"),
        state="answered",
        detection=Detection("epochs", 60.0, None, (), 0.7, "track", "wall"),
        job_since=now - 660,
        epochs_seen=11,
        epochs=epochs,
        profile=profile,
        last_sample=now,
        samples=6600,
    )
    return replace(report, **more)


def _pages(client: TestClient) -> dict[str, str]:
    """The overview and the page of the one job."""
    (job,) = client.get("/api/v1/jobs").json()["jobs"]
    paths = {"overview": "/", "job": f"/jobs/{job['id']}"}
    return {name: client.get(path).text for name, path in paths.items()}


def test_epochs_that_are_unsure_are_no_good_news(client_of: Any) -> None:
    for name, page in _pages(client_of(lambda store: store.write_gpus([GpuChange(_report())]))).items():
        assert 'class="badge wait" title="There seem to be epochs' in page and "epochs unsure</span>" in page, name
        assert "epochs found" not in page, name
        assert "not sure yet" in page, name


def test_a_cycle_is_not_called_an_epoch(client_of: Any) -> None:
    profile = replace(read_profile(example_profile()), unit="cycle")
    cycle = Cycle("checkpoint", 60.0, 0.93, "the GPU rests, and pcie_tx is far above usual", 0.2, 5.0)
    found = Detection("epochs", 60.0, None, (), 0.93, "track", "wall", cycles=(cycle,))
    report = _report(detection=found, profile=profile)
    pages = _pages(client_of(lambda store: store.write_gpus([GpuChange(report)])))
    assert "<dt>cycle time</dt>" in pages["job"] and "epochs found" not in pages["job"]
    assert pages["overview"].count("<small>per cycle</small>") == 2, "of the job and of its GPU"


def test_time_held_but_idle_and_reduced_clocks_are_shown_where_they_are_known(client_of: Any) -> None:
    rented = {"instance": "g4dn.xlarge", "cloud": "aws", "region": "us-east-1"}
    shown = []
    for known in ({}, {"held_idle_s": 1800.0, "throttled": {"power_cap": 0.11}}):
        report = _report(profile=replace(read_profile(example_profile()), **known))
        report = replace(report, device=replace(report.device, **rented))
        shown.append(_pages(client_of(lambda store, own=report: store.write_gpus([GpuChange(own)]))))
    assert "held but idle" not in shown[0]["job"] and "reduced clock" not in shown[0]["job"]
    tile = shown[1]["job"].partition("<dt>held but idle</dt>")[2].partition("</div>")[0]
    assert re.fullmatch(r"30 min \$0\.\d+", " ".join(re.sub("<[^>]+>", " ", tile).split())), tile
    assert "of an epoch at reduced clock: power cap (SM clock at " in shown[1]["job"]


def test_green_is_only_what_is_certain(fleet_client: TestClient) -> None:
    parts = fleet_client.app.state.parts  # type: ignore[attr-defined]
    for job in fleet_client.get("/api/v1/jobs").json()["jobs"]:  # of so many epochs, switching is worth it
        known = {"instance": "p3.2xlarge", "cloud": "aws"} if job["gpu_model"] == "V100 SXM2 16GB" else {}
        parts.store.write_plan(job["id"], {"epochs": 10**6, **known} if job["unit"] in ("epoch", "step") else {})
    parts.analysis.round()
    overview = fleet_client.get("/").text.partition('<section id="gpus"')[0]
    rows = {row.partition('"')[0]: row for row in overview.split('href="/jobs/')[1:]}
    actions = set()
    for job in fleet_client.get("/api/v1/jobs").json()["jobs"]:
        found = fleet_client.get(f"/api/v1/jobs/{job['id']}").json()["answer"]
        certain = found is not None and found["recommendation"]["verdict"]["certain"]
        actions.add(certain)
        assert ('class="gain"' in rows[job["id"]].partition("</tr>")[0]) == certain, job["id"]
        page = fleet_client.get(f"/jobs/{job['id']}").text
        assert ('class="saving"' in page) == certain, job["id"]
    assert actions == {True, False}, "both happen in the fleet"


def test_what_costs_more_saves_nothing(client_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(fill)
    snapshot = client.app.state.parts.analysis.snapshot
    job = snapshot.jobs["slurm-1234"]
    dearer = Savings(cost_ratio=-0.3, time_ratio=-0.2)
    answer = replace(job.answer, recommendation=replace(job.answer.recommendation, savings=dearer))
    worse = replace(job, answer=answer, savings_cost_ratio=-0.3)
    changed = replace(snapshot, jobs=snapshot.jobs | {job.id: worse})
    monkeypatch.setattr(Analysis, "snapshot", property(lambda self: changed))
    row = client.get("/").text.partition('href="/jobs/slurm-1234"')[2].partition("</tr>")[0]
    assert ">stay</span>" in row and "30" not in row.partition('data-label="saves"')[2]
    page = re.sub("<[^>]+>", "", client.get("/jobs/slurm-1234").text)
    assert "−30" not in page and "−20" not in page


@pytest.mark.parametrize("path", ["/jobs/none", "/page/none.css", "/jobs/%3Cscript%3E"])
def test_what_is_not_there_is_said_as_a_page(client_of: Any, path: str) -> None:
    answer = client_of(lambda store: None).get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "<h1>Not found</h1>" in answer.text
    assert "<script>" not in answer.text


def test_the_page_works_below_a_prefix_of_a_proxy(fleet_client: TestClient) -> None:
    shown = TestClient(fleet_client.app, root_path="/gpu").get("/gpu/").text
    assert 'href="/gpu/jobs/slurm-1234"' in shown


def test_an_uploaded_profile_is_answered(client_of: Any) -> None:
    client = client_of(lambda store: None)
    profile = example_profile()
    file = {"file": ("run.json", json.dumps(profile).encode())}
    shown = client.post("/try", files=file, data={"gpu": "", "count": "1"})
    assert shown.status_code == 200
    told = client.post("/api/v1/predictions", json={"profiles": [profile]}).json()["predictions"]
    assert len(told) > 20
    for one in told:
        assert f'<data value="{one["seconds"]:.12g}">' in shown.text
    assert "On every GPU" in shown.text
    assert "simulated" in shown.text


def test_what_a_job_is_too_large_for_is_marked_and_an_idle_one_refused(client_of: Any) -> None:
    client = client_of(lambda store: None)
    profile = example_profile() | {"gpu": "A100 SXM4 40GB"}
    used, free = (dict.fromkeys(profile["metrics"]["memory_used"], gib * 2**30) | {"std": 0} for gib in (26, 14))
    large = profile | {"metrics": profile["metrics"] | {"memory_used": used, "memory_free": free}}
    form = {"gpu": "", "count": "2"}
    page = client.post("/try", files={"file": ("job.json", json.dumps(large).encode())}, data=form).text
    rows = {gpu: row.partition("</tr>")[0] for gpu in ("T4", "H100 SXM5") for row in [page.partition(f"2 × {gpu}</th>")[2]]}
    assert "does not fit" in rows["T4"] and "other jobs" in rows["H100 SXM5"]
    assert "the job has 26 GiB in use on a GPU and does not fit into" in page
    idle = profile | {
        "metrics": {"gpu_utilization": dict.fromkeys(profile["metrics"]["gpu_utilization"], 0)},
        "feature_set": "nvml",
    }
    refused = client.post("/try", files={"file": ("job.json", json.dumps(idle).encode())}, data=form)
    assert "the GPU is idle in it" in refused.text and "rests on" not in refused.text


@pytest.mark.parametrize(
    ("data", "count", "says"),
    [
        (b"", "1", "No file was sent"),
        (b"{", "1", "is not JSON"),
        (b'{"schema": "x"}', "1", "schema"),
        (b"PAR1 is not all", "1", "not a readable Parquet file"),
        (b"<script>alert(1)</script>", "1", "No answer"),
        (json.dumps(example_profile()).encode(), "0", "whole number from 1"),
        (json.dumps(example_profile()).encode(), "²", "whole number from 1"),
    ],
)
def test_what_cannot_be_answered_says_why(client_of: Any, data: bytes, count: str, says: str) -> None:
    client = client_of(lambda store: None)
    answer = client.post("/try", files={"file": ("x<b>", data)}, data={"gpu": "", "count": count})
    assert answer.status_code == 422
    assert says in answer.text
    assert "<script>alert" not in answer.text
    assert 'role="alert"' in answer.text


def test_an_uploaded_trace_is_answered(client_of: Any) -> None:
    rows = "\n".join(f"{1.7e9 + n / 10:.1f},{0.1 if n % 100 < 8 else 0.95},{70 if n % 100 < 8 else 210}" for n in range(3000))
    trace = f"time,gpu_utilization,power\n{rows}\n".encode()
    client = client_of(lambda store: None)
    answer = client.post("/try", files={"file": ("run.csv", trace)}, data={"gpu": "T4", "count": "1"})
    assert answer.status_code == 200
    assert "run.csv" in answer.text
    assert "runs here" in answer.text
