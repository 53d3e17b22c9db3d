"""The pages of a fleet that is too large to be seen as a whole, read as HTML."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient

from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.page.overview import ROWS
from epochcast.analyzer.service.parts import Parts

from ..test_lists import GPUS, ODD, large  # noqa: F401  (a fixture)


@pytest.fixture
def pages(large: Parts) -> TestClient:  # noqa: F811
    return TestClient(create_app(replace(large, registry=CollectorRegistry())))


def rows(shown: str, kind: str) -> list[str]:
    return [html.unescape(one) for one in re.findall(rf'<tr role="row" id="{kind}-([^"]+)"', shown)]


def test_the_overview_has_jobs_gpus_and_sources_each_cut(pages: TestClient) -> None:
    shown = pages.get("/").text
    assert shown.index('id="jobs"') < shown.index('id="gpus"') < shown.index('id="sources"')
    assert len(rows(shown, "gpu")) == len(rows(shown, "job")) == ROWS
    sources = re.search(r'<ul class="sources">.*?</ul>', shown, re.S)
    assert sources is not None
    assert sources[0].count("<li>") == sources[0].count('class="sub"') == ROWS
    assert f"The first {ROWS} of 192" in shown and f"The first {ROWS} of {GPUS}" in shown
    assert 'role="search"' in shown


def test_a_small_fleet_has_no_search_and_all_its_gpus(fleet_client: TestClient) -> None:
    shown = fleet_client.get("/").text
    assert 'role="search"' not in shown
    assert len(rows(shown, "gpu")) == 10


def test_a_search_finds_jobs_gpus_and_sources_and_stays_in_its_field(pages: TestClient) -> None:
    shown = pages.get("/", params={"q": "node-0007"}).text
    assert len(rows(shown, "gpu")) == 8
    assert rows(shown, "job")
    assert shown.count("http://node-0007:9912") == 1
    assert 'value="node-0007"' in shown
    nothing = pages.get("/", params={"q": "'><img src=x>"}).text
    assert "<img" not in nothing
    assert "No running job matches" in nothing
    odd = pages.get("/", params={"q": ODD}).text
    assert rows(odd, "gpu") == ["GPU-odd"]
    assert "<script>alert" not in odd
    assert html.escape(ODD).split("&#x27;")[0] in odd
