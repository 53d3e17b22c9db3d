"""docs/analyzer.md against the code: its settings are whole, and its examples work."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from epochcast.analyzer.jobs.questions import example_profile
from epochcast.analyzer.service.parts import Parts


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "analyzer.md").read_text(encoding="utf-8")


def test_the_examples_work(page: str, client: TestClient, parts: Parts) -> None:
    block = page.split("## API")[1].split("```")[1]
    commands = [shlex.split(line) for line in block.splitlines() if line.startswith("curl")]
    assert len(commands) >= 10
    for words in commands:
        (url,) = [word for word in words if word.startswith("localhost:9913")]
        path = url.removeprefix("localhost:9913")
        if path.startswith("/api/v1/traces"):  # an upload: test_uploads.py
            assert words[words.index("-H") + 1] == "Content-Type: application/vnd.apache.parquet"
            continue
        if "-d" in words:
            body = words[words.index("-d") + 1].replace("$(cat job.json)", json.dumps(example_profile()))
            method = words[words.index("-X") + 1] if "-X" in words else "POST"
            answer = client.request(method, path, content=body, headers={"Content-Type": "application/json"})
        else:
            answer = client.get(path)
        assert answer.status_code in (200, 204), (path, answer.text)
