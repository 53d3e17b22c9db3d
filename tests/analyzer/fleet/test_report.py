"""The fleet's report: one safe, self-contained page that tells what the tables hold, and says what is simulated or assumed."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.analyze import write_results
from epochcast.analyzer.fleet.finding import Failure, Finding, Quality
from epochcast.analyzer.fleet.spans_by_start import SpansByStart
from epochcast.analyzer.fleet.tables import SCHEMAS
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.regressor import LatencyPredictor

from .made_findings import WHOLE, device, finding, fleet, span

SIZES = {"phone": (390, 844), "desktop": (1440, 900)}
NASTY = "</style><script>alert('x')</script>&\"'"


def findings() -> Iterator[Finding]:
    yield from fleet(7)
    dear = {"instance": "p3.16xlarge", "cloud": "aws", "region": "us-east-1"}  # so that to move surely saves
    devices = [device(f"straggling{NASTY}", index, "Tesla V100-SXM2-16GB", **dear) for index in range(4)]
    for of, more in zip(devices, (0.8, 0.81, 0.79, 1.0), strict=True):
        holes = Quality(5400, 10.0, 0.1, 20.0, ("sm_active",), ("power",), (f"10.5 % of the ticks are missing {NASTY}",))
        yield finding(of, span(of, more_work=more), quality=holes if more == 1.0 else WHOLE)


BROKEN = [f"broken/{number}.parquet" for number in range(40)]
FAILURES = [Failure(name, "1", f"'{name}' is no Parquet file: {NASTY}") for name in BROKEN]


@pytest.fixture(scope="module")
def made(advisor: Advisor, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("fleet")
    advanced: list[int] = []
    predictor = LatencyPredictor.load(catalog=advisor.catalog)
    advisor = Advisor(  # these jobs are of ten minutes
        advisor.catalog, predictor, advisor.instances, JobQuestion(switch_usd=0.0)
    )
    summary = write_results(findings(), FAILURES, advisor, out, analysed=f"traces {NASTY}", advance=advanced.append)
    assert sum(advanced) == summary["jobs"]
    return out, summary


def test_the_summary_adds_up_to_the_jobs_table(made: tuple[Path, dict[str, Any]]) -> None:
    out, summary = made
    assert sorted(one.name for one in out.iterdir()) == sorted(
        [*(f"{name}.parquet" for name in SCHEMAS), "report.html", "summary.json"]
    )
    assert json.loads((out / "summary.json").read_text()) == summary
    assert (summary["gpus"], summary["traces"], summary["failed"], summary["simulated"]) == (60, 60, 40, 60)
    assert summary["found"] == {"epochs": 46, "steps": 7, "none": 0, "idle": 7}
    jobs = pq.read_table(out / "jobs.parquet")
    assert summary["jobs"] == jobs.num_rows == 7 * 3 + 1
    savings = summary["savings"]
    sure = jobs.filter(pc.field("saving_sure"))
    assert savings["sure"]["jobs"] == sure.num_rows > 0
    assert savings["sure"]["saved_usd"] == pytest.approx(pc.sum(sure["saving_usd"]).as_py())
    counted = savings["sure"]["jobs"] + savings["unsure"]["jobs"] + savings["stay"]["jobs"] + savings["unknown"]
    assert counted == jobs.num_rows
    ordered = [row["saving_usd"] for row in savings["most"]]
    assert ordered == sorted(ordered, reverse=True) and ordered[0] == pytest.approx(pc.max(sure["saving_usd"]).as_py())
    assert savings["usd_per_month"] is None, "ten minutes are no month"
    assert summary["idle"]["idle_hours"] == pytest.approx(7 / 6) and summary["idle"]["gpus"] == 7
    assert summary["stragglers"]["jobs"] == 1
    assert summary["stragglers"]["worst"][0]["straggler_trace"].endswith("3.parquet")
    assert summary["stragglers"]["gpu_hours"] == pytest.approx(0.2 * 3 / 6, rel=1e-3)
    assert summary["quality"]["with_problems"] == 1
    assert [row["count"] for row in summary["failures"]] == [40], "kinds differ by more than figures and names"


@pytest.mark.parametrize("failures", [[], FAILURES[:1]])
def test_a_fleet_without_anything_is_told_too(advisor: Advisor, tmp_path: Path, failures: list[Failure]) -> None:
    summary = write_results([], failures, advisor, tmp_path, analysed="nothing")
    assert (summary["gpus"], summary["jobs"], summary["failed"]) == (0, 0, len(failures))
    assert pq.read_table(tmp_path / "jobs.parquet").num_rows == 0
    assert "NaN" not in (tmp_path / "summary.json").read_text()


def test_a_full_disk_is_one_sentence(advisor: Advisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(spans: SpansByStart, span: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(SpansByStart, "add", full)
    with pytest.raises(InputError, match="disk is full; make room"):
        write_results(fleet(1), [], advisor, tmp_path, analysed="x")
    assert list(tmp_path.iterdir()) == []


def test_the_names_of_idle_gpus_are_escaped_too(advisor: Advisor, tmp_path: Path) -> None:
    write_results([finding(device(NASTY, 0, NASTY), idle_s=600.0)], [], advisor, tmp_path, analysed="x")
    page = _Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "script" not in page.tags and page.text.count(NASTY) >= 2


class _Page(HTMLParser):
    """What a page loads, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.text = ""
        self.rows = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.rows += tag == "tr"
        self.addresses += [value or "" for name, value in attributes if name in ("href", "src", "srcset", "action")]
        assert not [name for name, _ in attributes if name.startswith("on") or name == "style"]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_report_needs_nothing_else_and_escapes_everything(made: tuple[Path, dict[str, Any]]) -> None:
    text = (made[0] / "report.html").read_text(encoding="utf-8")
    page = _Page(text)
    assert not page.tags & {"script", "link", "img", "iframe", "object"} and page.addresses == []
    assert not re.search(r"url\(|@import|https?:", text)
    assert page.text.count(NASTY) >= 4, "names are told as they are"
    assert "No GPU was measured" in page.text
    assert "the others wait" in page.text and "20\N{NO-BREAK SPACE}%" in page.text


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_it_fits_and_can_be_read(chromium: Any, root: Path, made: tuple[Path, dict[str, Any]], size: str, theme: str) -> None:
    contrast = (root / "tests/analyzer/service/page/contrast.js").read_text(encoding="utf-8")
    width, height = SIZES[size]
    context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=theme, java_script_enabled=True)
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("request", lambda request: complaints.append(request.url) if not request.url.startswith("file:") else None)
    page.goto((made[0] / "report.html").as_uri())
    for summary in page.locator("summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(contrast) == [], "texts are too pale"
    assert page.locator("h1").count() == 1
    page.emulate_media(media="print")
    ink, ground = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).getPropertyValue('--card')]"
    )
    assert (ink, ground) == ("rgb(27, 30, 35)", "#ffffff"), "dark on white on paper, in any theme"
    context.close()
    assert complaints == []
