"""``docs/backends.md`` and ``how-to/add-a-predictor.md``: questions are answered as they say, and the shown backend works."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from epochcast.analyzer.cli import main

from .conftest import fitted

Serve = Callable[..., TestClient]
Install = Callable[..., None]


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "backends.md").read_text()


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def shown(page: str) -> Iterator[tuple[str, Any, Any]]:
    """Backend, question and answer of every curl with a question on its second line that an answer follows."""
    pattern = r"^```sh\ncurl \S+/backends/(\S+) -H [^\n]*\\\n  -d '([^\n]*)'\n```\n```json\n(.*?)^```$"
    for backend, question, answer in re.findall(pattern, page, re.DOTALL | re.MULTILINE):
        yield backend, json.loads(question), json.loads(answer)


def holds(answer: Any, part: Any) -> bool:
    """Whether all that the page shows is in the answer; figures are rounded there."""
    if isinstance(part, dict):
        return all(key in answer and holds(answer[key], value) for key, value in part.items())
    if isinstance(part, list):
        return len(part) == len(answer) and all(holds(*pair) for pair in zip(answer, part, strict=True))
    return answer == (pytest.approx(part, rel=1e-3) if isinstance(part, float) else part)


def test_the_white_boxes_answer_as_shown(page: str, serve: Serve, cpu_points: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra torch)")
    client = serve({"convmeter": {"models": {"cpu": str(fitted(cpu_points, tmp_path / "cpu"))}}})
    of_ours = list(shown(page))
    assert [backend for backend, _, _ in of_ours] == ["distributed", "convmeter", "occupancy"]
    for backend, question, expected in of_ours:
        answer = client.post(f"/api/v1/backends/{backend}", json=question).json()
        if "tokens_per_second" in expected:
            answer["tokens_per_second"] = round(answer["tokens_per_second"])
        assert holds(answer, expected), answer


def test_the_backend_of_another_package_works_as_it_stands(
    root: Path,
    serve: Serve,
    install: Install,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (root / "docs" / "how-to" / "add-a-predictor.md").read_text()
    text, _ = blocks(page, "python")  # the second is of `epochcast fit`
    assert 25 <= len(text.splitlines()) <= 45
    project, configuration, _ = (tomllib.loads(block) for block in blocks(page, "toml"))
    install("staging", text, **project["project"]["entry-points"]["epochcast.backends"])
    client = serve(configuration["backends"])
    (asked,) = shown(page)
    assert client.post("/api/v1/backends/staging", json=asked[1]).json() == asked[2]
    told = client.get("/api/v1/backends/staging").json()
    assert (
        told["available"] and client.post("/api/v1/backends/staging", json=told["question"]["examples"][0]).status_code == 200
    )
    refused = client.post("/api/v1/backends/staging", json={"bytes": 1, "region": "x"})
    assert refused.status_code == 422
    assert refused.json()["detail"] == "the rate to 'x' is not configured; known are eu-north-1, us-east-1"
    without = serve().get("/api/v1/backends/staging").json()
    assert without["why"].startswith("no rate is configured") and not without["available"]
    assert main(["predict-model", "staging", "--bytes", "-1", "--region", "x"]) == 2
    assert capsys.readouterr().err == "epochcast: --bytes is -1; give a number above 0\n"
    assert main(["predict-model", "staging", "--bytes", "1", "--region", "x"]) == 2
    assert capsys.readouterr().err.startswith("epochcast: no rate is configured; add [backends.staging]")
