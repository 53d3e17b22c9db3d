"""The pages of a fleet that is too large to be seen as a whole, read as HTML."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient

from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.page import routes
from epochcast.analyzer.service.page.overview import ROWS
from epochcast.analyzer.service.parts import Parts

from ..test_lists import GPUS, ODD, large  # noqa: F401  (a fixture)


@pytest.fixture
def pages(large: Parts) -> TestClient:  # noqa: F811
    return TestClient(create_app(replace(large, registry=CollectorRegistry())))


def linked(text: str, rel: str) -> str | None:
    found = re.search(rf'<a rel="{rel}" href="([^"]+)"', text)
    return None if found is None else html.unescape(found[1])


@pytest.mark.parametrize("rows", [7, 100, 1000])
@pytest.mark.parametrize(("path", "row"), [("/gpus", "gpu"), ("/jobs", "job"), ("/nodes", "node")])
def test_each_row_is_on_one_page_there_and_back(
    pages: TestClient,
    large: Parts,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    row: str,
    rows: int,
) -> None:
    monkeypatch.setattr(routes, "ROWS", rows)
    there: list[list[str]] = []
    following: str | None = path
    while following is not None:
        text = pages.get(following).text
        there.append(re.findall(rf'<tr role="row" id="{row}-([^"]+)"', text))
        assert len(there) <= GPUS
        last, following = following, linked(text, "next")
    snapshot = large.analysis.snapshot
    wanted = {
        "gpu": list(snapshot.gpus),
        "job": list(snapshot.jobs),
        "node": sorted({gpu.node for gpu in snapshot.gpus.values()}),
    }[row]
    assert [html.unescape(one) for page in there for one in page] == wanted
    back: list[list[str]] = []
    previous: str | None = last
    while previous is not None:
        text = pages.get(previous).text
        back.append(re.findall(rf'<tr role="row" id="{row}-([^"]+)"', text))
        assert len(back) <= GPUS
        previous = linked(text, "prev")
    assert back == there[::-1]


def test_the_overview_has_jobs_nodes_and_sources_each_cut_and_what_leads_to_the_others(pages: TestClient) -> None:
    shown = pages.get("/").text
    assert shown.index('id="jobs"') < shown.index('id="gpus"') < shown.index('id="sources"')
    assert len(re.findall(r'id="node-', shown)) == ROWS
    assert len(re.findall(r'id="node-', pages.get("/nodes").text)) == 42
    assert not re.findall(r'id="gpu-', shown)
    assert len(re.findall(r'id="job-', shown)) == ROWS
    sources = re.search(r'<ul class="sources">.*?</ul>', shown, re.S)
    assert sources is not None
    assert sources[0].count("<li>") == sources[0].count('class="sub"') == ROWS
    assert f'The first {ROWS} of <a href="/sources?q=">all 192</a>' in shown
    assert f'The first {ROWS} of <a href="/nodes?q=">all 42</a>' in shown
    assert 'href="/jobs?q=&amp;state=running"' in shown
    assert 'role="search"' in shown


def test_a_small_fleet_has_no_search_and_all_its_gpus(fleet_client: TestClient) -> None:
    shown = fleet_client.get("/").text
    assert 'role="search"' not in shown
    assert "GPUs by node" not in shown
    assert len(re.findall(r'id="gpu-', shown)) == 10


def test_a_node_leads_to_its_gpus_also_under_an_odd_name(pages: TestClient) -> None:
    shown = pages.get("/nodes").text
    links = [html.unescape(link) for link in re.findall(r'<a href="(/gpus\?node=[^"]+)"', shown)]
    assert len(links) == 42
    odd = pages.get(next(link for link in links if "script" in link)).text
    assert re.findall(r'id="gpu-([^"]+)"', odd) == ["GPU-odd"]
    assert "<script>alert" not in odd
    assert html.escape(ODD).split("&#x27;")[0] in odd
    assert len(re.findall(r'id="gpu-', pages.get("/gpus?node=node-0001").text)) == 8


def test_a_search_finds_jobs_gpus_and_sources_and_stays_in_its_field(pages: TestClient) -> None:
    shown = pages.get("/", params={"q": "node-0007"}).text
    assert len(re.findall(r'id="gpu-', shown)) == 8
    assert re.findall(r'id="job-', shown)
    assert shown.count("http://node-0007:9912") == 1
    assert 'value="node-0007"' in shown
    nothing = pages.get("/", params={"q": "'><img src=x>"}).text
    assert "<img" not in nothing
    assert "No running job matches" in nothing
    filtered = pages.get("/gpus", params={"state": "idle"}).text
    assert re.findall(r'id="gpu-([^"]+)"', filtered) == ["GPU-idle"]
    assert '<option value="idle" selected>' in filtered
    kept = pages.get("/gpus", params={"node": "node-0001", "q": "tesla"}).text
    assert '<input type="hidden" name="node" value="node-0001">' in kept
