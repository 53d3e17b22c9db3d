"""The HTTP API against what it is made of: answers, and errors as problems of one sentence."""

import json
from dataclasses import replace as changed
from datetime import date
from pathlib import Path
from typing import Any

import httpx2
import pandas as pd
import pytest
from starlette.testclient import TestClient

from epochcast.analyzer.jobs.questions import example_profile
from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.parts import Parts
from epochcast.analyzer.service.uploads import detection_of_upload
from epochcast.analyzer.traces.trace import Trace, write_trace
from lab.simulator import simulate

from .conftest import SLURM_JOB

PROBLEM = "application/problem+json"


def problem(response: httpx2.Response, status: int) -> str:
    """Check that it is a problem of one sentence, and return that."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == PROBLEM
    body = response.json()
    assert set(body) == {"type", "title", "status", "detail", "instance"}
    assert body["status"] == status
    assert "\n" not in body["detail"]
    assert len(body["detail"]) > 20
    detail: str = body["detail"]
    return detail


def got(client: TestClient, path: str, **query: Any) -> Any:
    response = client.get(path, params=query)
    assert response.status_code == 200, response.text
    return response.json()


# GPUs and jobs


def test_gpus_and_their_epochs(client: TestClient, parts: Parts) -> None:
    gpus = got(client, "/api/v1/gpus")["gpus"]
    assert [gpu["uuid"] for gpu in gpus] == ["GPU-8f2c1f0a-0", "GPU-8f2c1f0a-1", "GPU-8f2c1f0a-2"]
    assert got(client, "/api/v1/gpus/GPU-8f2c1f0a-1") == gpus[1]
    assert gpus[0]["model"] == "T4"
    assert gpus[0]["job"] == gpus[1]["job"] == SLURM_JOB != gpus[2]["job"]

    epochs = got(client, "/api/v1/gpus/GPU-8f2c1f0a-0/epochs")["epochs"]
    assert [epoch["end"] - epoch["start"] for epoch in epochs] == pytest.approx([example_profile()["epoch_s"]] * 5)
    assert {epoch["profile"] for epoch in epochs} == {None}
    newest = got(client, "/api/v1/gpus/GPU-8f2c1f0a-0/epochs", limit=2, profiles=True)["epochs"]
    assert [epoch["start"] for epoch in newest] == [epoch["start"] for epoch in epochs[-2:]]
    assert newest[0]["profile"]["metrics"] == example_profile()["metrics"]
    assert got(client, "/api/v1/gpus/GPU-8f2c1f0a-0/epochs", since=epochs[-2]["end"])["epochs"] == epochs[-1:]


def test_jobs_with_prediction_and_recommendation(client: TestClient) -> None:
    jobs = got(client, "/api/v1/jobs")["jobs"]
    assert len(jobs) == 2
    job = got(client, f"/api/v1/jobs/{SLURM_JOB}")
    assert job | {"answer": None} in jobs
    assert job["gpus"] == ["GPU-8f2c1f0a-0", "GPU-8f2c1f0a-1"]
    ranked = got(client, f"/api/v1/jobs/{SLURM_JOB}/recommendation", objective="time", cloud="aws")
    where = ranked["recommendation"]
    assert ranked["predictions"] == job["answer"]["predictions"]
    seconds = [row["seconds"]["value"] for row in where["placements"]]
    assert where["objective"] == "time" and seconds == sorted(seconds)
    assert {row["instance"]["cloud"] for row in where["placements"]} == {"aws"}
    # On all GPUs of any instance that holds it.
    assert all(row["gpus"] == row["instance"]["count"] * row["instances"] for row in where["placements"])


def test_a_read_only_service_keeps_no_plan(parts: Parts) -> None:
    settings = parts.settings.model_copy(update={"read_only": True})
    client = TestClient(create_app(changed(parts, settings=settings)))
    detail = problem(client.put(f"/api/v1/jobs/{SLURM_JOB}/plan", json={"epochs": 90}), 403)
    assert "read_only = false" in detail
    assert parts.store.plans() == {}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 204),
        ({"Origin": "http://testserver"}, 204),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
    ],
)
def test_only_our_own_pages_may_write(client: TestClient, parts: Parts, headers: dict[str, str], status: int) -> None:
    assert client.put(f"/api/v1/jobs/{SLURM_JOB}/plan", json={"epochs": 90}, headers=headers).status_code == status
    assert bool(parts.store.plans()) == (status == 204)


@pytest.mark.parametrize("path", ["gpus/none", "gpus/none/epochs", "jobs/none", "jobs/none/recommendation", "backends/none"])
def test_what_was_not_seen_is_404(client: TestClient, path: str) -> None:
    assert "none" in problem(client.get(f"/api/v1/{path}"), 404)


# Questions


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = simulate(seed=3, epochs=8, epoch_s=12.0)
    columns = {name: made.metrics[name] for name in ("dram_active", "sm_active", "power")}  # more take longer to search
    trace = Trace(pd.DataFrame({"time": made.time, **columns}), gpu="Tesla T4", simulated=True, job={"command": "vit"})
    return write_trace(trace, tmp_path_factory.mktemp("runs") / "run.parquet")


def test_a_trace_that_is_sent_may_say_what_its_job_is_and_where_it_may_run(client: TestClient, run: Path) -> None:
    body = run.read_bytes()

    def sent(what: str, **query: str) -> httpx2.Response:
        kind = {"Content-Type": "application/vnd.apache.parquet"}
        return client.post(f"/api/v1/traces/{what}", content=body, headers=kind, params=query)

    unknown, declared = (sent("predictions", target="A100 SXM4 80GB", **more).json() for more in ({}, {"precision": "mixed"}))
    (between,), (mixed,) = unknown["predictions"], declared["predictions"]
    assert declared["precision"] == {"mixed": 1.0} and mixed["by_precision"] == {}
    assert mixed["ratio"] == pytest.approx(between["by_precision"]["mixed"]) and mixed["ratio"] > between["ratio"]
    assert sent("predictions", precision="int8").status_code == sent("predictions", type="rcnn").status_code == 422
    assert "its type, transformer, is from its command (vit); state the type to correct it" in unknown["notes"]
    stated = sent("predictions", type="llm", family="llama", inference="true").json()["notes"]
    assert "the job is taken for inference of type llm, of the family llama" in stated and "command" not in " ".join(stated)
    found = sent("detections").json()
    assert (found["verdict"], len(found["epochs"])) == ("epochs", 8)
    assert found == detection_of_upload(body, "parquet")
    assert (sent("detections", epoch_time="6.5").json()["period_s"], sent("detections", epoch_time="0").status_code) == (
        6.5,
        422,
    )
    starts = [found["first_sample"] + 6 * epoch for epoch in range(5)]
    known = sent("predictions", epoch_start=starts).json()  # type: ignore[arg-type]
    assert (known["gpus"][0]["detection"]["method"], known["gpus"][0]["profile"]["epoch_s"]) == ("known", 6)
    assert any("are known from its stated starts; telemetry" in note for note in known["notes"])
    ranked = sent("recommendations", cloud="aws").json()
    assert {row["instance"]["cloud"] for row in ranked["recommendation"]["placements"]} == {"aws"}


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 422, "not JSON"),
        (b"[" * 15_000, 400, "nests too deeply"),
        (b'{"profiles": [1' + b"0" * 5000 + b"]}", 400, "thousands of digits"),
        (b'{"profiles": []}', 422, "profiles"),
        (b'{"profiles": [{}]}', 422, "schema"),
        (b'{"profiles": [], "x\\ud800": 1}', 422, "unicode"),
        (b'{"\xff": 1}', 400, "not UTF-8"),
        (b"null", 422, "body"),
    ],
)
def test_a_body_that_is_no_question_is_one_sentence(client: TestClient, body: bytes, status: int, said: str) -> None:
    response = client.post("/api/v1/predictions", content=body, headers={"Content-Type": "application/json"})
    assert said in problem(response, status)


@pytest.mark.parametrize("kind", [None, "text/plain", "multipart/form-data", "application/x-www-form-urlencoded"])
def test_another_kind_of_content_is_415(client: TestClient, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    question = json.dumps({"profiles": [example_profile()]}).encode()
    assert "send application/json" in problem(client.post("/api/v1/predictions", content=question, headers=headers), 415)
    assert "text/csv" in problem(client.post("/api/v1/traces/detections", content=b"time,a\n", headers=headers), 415)


# Tables and operation


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/jobs/slurm-4711/recommendation?deadline=1", "'deadline'; did you mean 'deadline_s'?"),
        ("/gpus/GPU-8f2c1f0a-0/epochs?x=1", "'x'; known: limit, profiles, since"),
        ("/gpus?x=1", "'x'; known: after, job, limit, node, q, state"),
        ("/backends?x=1", "'x'; it takes none"),
    ],
)
def test_a_parameter_that_nobody_knows_is_refused(client: TestClient, path: str, said: str) -> None:
    answer = client.get(f"/api/v1{path}")
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


def test_catalogue_and_prices(client: TestClient, parts: Parts) -> None:
    gpus = got(client, "/api/v1/catalog/gpus")["gpus"]
    assert [gpu["name"] for gpu in gpus] == [gpu.name for gpu in parts.advisor.catalog.values()]
    prices = got(client, "/api/v1/prices", gpu="Tesla T4", cloud="aws")["prices"]
    assert prices
    assert {(row["gpu"], row["cloud"]) for row in prices} == {("T4", "aws")}
    assert all(date.fromisoformat(row["date"]) and row["source"] for row in prices)
    assert "no-such-gpu" in problem(client.get("/api/v1/prices", params={"gpu": "no-such-gpu"}), 422)


def test_get_is_answered_to_head_without_a_body(client: TestClient) -> None:
    response = client.head("/api/v1/gpus")
    assert (response.status_code, response.content) == (200, b"")
    assert int(response.headers["content-length"]) == len(client.get("/api/v1/gpus").content)
    problem_of_post = client.head("/api/v1/predictions")
    assert (problem_of_post.status_code, problem_of_post.content) == (405, b"")


def test_a_method_that_is_not_there_names_those_that_are(client: TestClient) -> None:
    response = client.delete("/api/v1/gpus")
    assert "use GET" in problem(response, 405)
    assert response.headers["allow"] == "GET"
    response = client.delete("/api/v1/backends/convmeter")  # two routes have this path, one of them for all names
    assert "use GET, POST" in problem(response, 405)
    assert response.headers["allow"] == "GET, POST"
    problem(client.get("/api/v2/gpus"), 404)


def test_what_the_description_gives_as_examples_can_be_asked(client: TestClient) -> None:
    spec = got(client, "/openapi.json")
    question = spec["components"]["schemas"]["PredictionQuestion"]
    assert client.post("/api/v1/predictions", json=question["examples"][0]).status_code == 200
    ranking = spec["components"]["schemas"]["RecommendationQuestion"]
    assert client.post("/api/v1/recommendations", json=ranking["examples"][0]).status_code == 200
    plan = spec["components"]["schemas"]["JobPlan"]
    assert client.put(f"/api/v1/jobs/{SLURM_JOB}/plan", json=plan["examples"][0]).status_code == 204


def test_a_bug_is_a_problem_without_its_traceback(client: TestClient, parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(type(parts.advisor), "answer", fail)
    response = client.post("/api/v1/predictions", json={"profiles": [example_profile()]})
    assert "secret" not in problem(response, 500)
