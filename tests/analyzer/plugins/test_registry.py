"""Which backends there are: each is checked, and what is wrong with one is told and hurts no other."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins import Settings
from epochcast.analyzer.plugins.registry import Registry
from epochcast.extras import how_to_install

Serve = Callable[..., TestClient]
Install = Callable[..., None]

BUILT_IN = ["convmeter", "distributed", "occupancy"]

GOOD = """
from typing import ClassVar
from pydantic import BaseModel

class Question(BaseModel):
    number: int

class Answer(BaseModel):
    twice: int

class Twice:
    name = "twice"
    summary = "Doubles a number."
    Question = Question
    Answer = Answer
    def __init__(self, settings):
        self.own = settings.own
    def answer(self, question):
        return Answer(twice=2 * question.number)
"""

# A field that pydantic takes, and no JSON schema can tell.
ODD = GOOD.replace("    number: int", "    model_config = {'arbitrary_types_allowed': True}\n    number: type(len)")


def listed(client: TestClient) -> dict[str, Any]:
    return {one["name"]: one for one in client.get("/api/v1/backends").json()["backends"]}


def test_the_built_in_ones_are_installed(serve: Serve, cpu_model: Path) -> None:
    if importlib.util.find_spec("torch") is None:  # to import it takes seconds
        pytest.skip("torch is not installed (extra torch)")
    found = listed(serve({"convmeter": {"models": {"cpu": str(cpu_model)}}}))
    assert [name for name, one in found.items() if one["available"]] == BUILT_IN
    for name, one in found.items():
        assert one["summary"].endswith(".") and one["package"].startswith("epochcast ")
        assert one["question"]["examples"] and one["answer"]["properties"], name


def test_a_backend_that_is_not_available_says_why_and_what_it_would_take(serve: Serve) -> None:
    client = serve({"convmeter": {"models": {"a": "nowhere"}}})
    one = client.get("/api/v1/backends/convmeter").json()
    assert not one["available"] and one["summary"].endswith(".")
    assert one["question"]["properties"]["network"] and one["answer"]["properties"]  # what it would be asked
    refused = client.post("/api/v1/backends/convmeter", json={"network": "resnet50"})
    assert refused.status_code == 501 and one["why"] in refused.json()["detail"]
    assert "retry-after" not in refused.headers


def test_a_table_of_no_backend_is_refused() -> None:
    with pytest.raises(InputError, match="a table for the backend 'x', which is not installed; installed are"):
        Registry.load(Settings(), {"x": {}})


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        (
            {"model": "x"},
            "takes models = {NAME = DIR} alone, of folders that exist (unknown setting 'model')",
        ),
        ({"models": {"a": "nowhere"}}, "of folders that exist (a is 'nowhere': path does not point to a directory)"),
    ],
)
def test_wrong_settings_of_a_backend_are_told(serve: Serve, own: dict[str, Any], sentence: str) -> None:
    one = listed(serve({"convmeter": own}))["convmeter"]
    assert not one["available"] and sentence in one["why"]


def test_a_missing_extra_is_told_with_the_remedy(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("torch", "onnx") else real(name))
    found = listed(serve())
    assert found["distributed"]["why"].endswith(how_to_install("torch"))
    assert found["occupancy"]["why"].endswith(how_to_install("occupancy"))
    assert found["convmeter"]["available"]


def test_another_package_brings_a_backend(serve: Serve, install: Install) -> None:
    install("twice_a", GOOD, twice="twice_a:Twice")
    client = serve({"twice": {"any": "thing"}})
    assert listed(client)["twice"] | {"question": None, "answer": None} == {
        "name": "twice",
        "summary": "Doubles a number.",
        "package": "twice_a 1.0",
        "available": True,
        "why": None,
        "question": None,
        "answer": None,
    }
    assert client.post("/api/v1/backends/twice", json={"number": 21}).json() == {"twice": 42}
    refused = client.post("/api/v1/backends/twice", json={"number": "x"})
    assert refused.status_code == 422 and refused.headers["content-type"] == "application/problem+json"
    described = client.get("/openapi.json").json()["paths"]["/api/v1/backends/twice"]["post"]
    assert described["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("Question")
    assert described["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].endswith("Answer")


BROKEN = {
    "bad_import": ("raise OSError('no licence')", "cannot be imported (OSError: no licence)"),
    "bad_exit": ("raise SystemExit(3)", "cannot be imported (SystemExit: 3)"),
    "bad_name": (GOOD.replace('"twice"', '"other"'), "its name must be 'twice'"),
    "bad_class": ("Twice = 3", "is not a backend"),
    "bad_schema": (ODD, "is not a backend"),
    "bad_method": (GOOD.replace("def answer", "def reply"), "has no attribute 'answer'"),
    "bad_init": (GOOD.replace("self.own = settings.own", "raise KeyError('licence')"), "KeyError: 'licence'"),
}


@pytest.mark.parametrize("package", BROKEN)
def test_a_broken_backend_is_named_and_hurts_no_other(serve: Serve, install: Install, package: str) -> None:
    text, why = BROKEN[package]
    install(package, text, twice=f"{package}:Twice")
    client = serve()
    found = listed(client)
    assert not found["twice"]["available"] and why in found["twice"]["why"] and found["convmeter"]["available"]
    refused = client.post("/api/v1/backends/twice", json={"number": 1})
    assert refused.status_code == 501 and why in refused.json()["detail"]


def test_names_that_no_path_can_have(install: Install) -> None:
    install("odd", GOOD, Twice="odd:Twice")
    one = Registry.load(Settings(), {}).get("Twice")
    assert one is not None and "at most 50 lower-case letters" in one.why


def test_ours_are_not_replaced(install: Install) -> None:
    install("aaa", GOOD.replace('"twice"', '"convmeter"'), convmeter="aaa:Twice")
    one = Registry.load(Settings(), {}).get("convmeter")
    assert one is not None and one.value == "epochcast.analyzer.backends.convmeter.backend:ConvMeter"


def test_a_backend_that_is_not_there(serve: Serve) -> None:
    client = serve()
    for answered in (client.get("/api/v1/backends/no"), client.post("/api/v1/backends/no", json={})):
        assert answered.status_code == 404
        assert answered.json()["detail"].startswith("there is no backend 'no'; installed: convmeter, ")
