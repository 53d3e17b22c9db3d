"""The form that sets a job's plan: what it keeps, what it refuses, and whose requests it takes."""

import re
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient

from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.parts import Parts

from ..conftest import SLURM_JOB

JOB = f"/jobs/{SLURM_JOB}"
TYPED = {"epochs": "90", "instance": "g4dn.xlarge", "cloud": "aws", "region": " us-east-1 "}


def values(page: str) -> dict[str, str]:
    return dict(re.findall(r'name="(\w+)" value="([^"]*)"', page))


def test_a_plan_is_kept_and_shown_again(client: TestClient) -> None:
    client.put(f"/api/v1{JOB}/plan", json={"epochs": 5, "tokens_per_step": 1e6})
    assert values(client.get(JOB).text) == {"epochs": "5", "instance": "", "cloud": "", "region": ""}
    sent = client.post(JOB, data=TYPED, follow_redirects=False)
    assert (sent.status_code, sent.headers["location"]) == (303, f"{JOB}#plan")
    plan = client.get(f"/api/v1{JOB}").json()["plan"]
    assert (plan["epochs"], plan["instance"], plan["region"], plan["tokens_per_step"]) == (90, "g4dn.xlarge", "us-east-1", 1e6)
    assert values(client.get(JOB).text) == TYPED | {"region": "us-east-1"}
    client.post(JOB, data={"epochs": ""})
    assert client.get(f"/api/v1{JOB}").json()["plan"]["epochs"] is None


@pytest.mark.parametrize(
    ("typed", "field", "sentence"),
    [
        ({"epochs": "many"}, "epochs", "This is &#39;many&#39;; give a whole number from 1 to 1,000,000,000."),
        ({"epochs": "0"}, "epochs", "give a whole number from 1"),
        ({"epochs": "1.5"}, "epochs", "give a whole number from 1"),
        ({"region": "x" * 101}, "region", "give at most 100 characters"),
        ({"cloud": '"><script>' + "x" * 101}, "cloud", "&lt;script&gt;"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field_and_what_was_typed_stays(
    client: TestClient, parts: Parts, typed: dict[str, str], field: str, sentence: str
) -> None:
    answer = client.post(JOB, data=TYPED | typed)
    assert answer.status_code == 422
    (error,) = re.findall(rf'<small class="wrong" id="plan-{field}-error" role="alert">(.*?)</small>', answer.text)
    assert sentence in error
    assert answer.text.count('class="wrong"') == 1
    assert values(answer.text).keys() == TYPED.keys()
    assert "<script>" not in answer.text
    assert parts.store.plans() == {}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 303),
        ({"Origin": "http://testserver"}, 303),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
    ],
)
def test_only_our_own_page_may_send_it(client: TestClient, parts: Parts, headers: dict[str, str], status: int) -> None:
    assert client.post(JOB, data=TYPED, headers=headers, follow_redirects=False).status_code == status
    assert bool(parts.store.plans()) == (status == 303)


def test_without_the_token_or_where_plans_are_not_allowed_nothing_is_kept(parts: Parts) -> None:
    locked = replace(parts, token="a-token-that-nobody-guesses", registry=CollectorRegistry())
    assert TestClient(create_app(locked)).post(JOB, data=TYPED).status_code == 401
    settings = parts.settings.model_copy(update={"read_only": True})
    read_only = TestClient(create_app(replace(parts, settings=settings, registry=CollectorRegistry())))
    assert 'id="plan"' not in read_only.get(JOB).text
    assert read_only.post(JOB, data=TYPED).status_code == 403
    assert parts.store.plans() == {}


def test_a_job_that_is_gone_and_what_is_no_form(client: TestClient) -> None:
    assert client.post("/jobs/none", data=TYPED).status_code == 404
    assert client.post(JOB, content=b"--x", headers={"Content-Type": "multipart/form-data"}).status_code == 400


def test_the_page_does_not_reload_while_somebody_types(client: TestClient) -> None:
    assert "http-equiv" not in client.get(JOB).text
    assert "http-equiv" in client.get("/").text
