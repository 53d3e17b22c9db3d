"""No text that reaches a page is executed: neither where it is shown, nor where a link or a form sends it back.

Chromium ignores the content security policy, which alone would stop most of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.questions import example_profile
from epochcast.analyzer.live.health import SourceStatus, WatcherHealth, WatcherReport
from epochcast.analyzer.live.state_store import GpuChange, StateStore
from epochcast.analyzer.plugins.registry import Registry
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.telemetry.gpu_report import Report

from ..conftest import made
from .conftest import AtOnce, Service, serving
from .fleet import fill

# Each sets the page's `owned` where it is executed.
PAYLOADS = (
    "<script>owned=1</script>",
    "\"><img src=x onerror='owned=1'>",
    "'><svg onload=owned=1>",
    '" autofocus onfocus="owned=1" x="',
    "</title></style></textarea><script>owned=1</script>",
    "javascript:owned=1",
    "{{owned=1}}${owned=1}<!--><script>owned=1</script>",
    '<iframe srcdoc="<script>parent.owned=1</script>">',
    "<details open ontoggle=owned=1>`<b onmouseover=owned=1>`",
    "&lt;script&gt;owned=1&lt;/script&gt;\u2028\\u003cscript\\u003eowned=1\\u003c/script\\u003e",
)
RUNS = [PAYLOADS[1], *(pytest.param(one, marks=pytest.mark.soak) for one in (PAYLOADS[:1] + PAYLOADS[2:]))]

TOUCH = "document.querySelectorAll('body *').forEach(one => { one.focus(); one.dispatchEvent(new Event('mouseover')); })"
CHOOSE = "(one, name) => { one.add(new Option(name, name)); one.value = name; }"
TEXTS = """document.documentElement.textContent
  + [...document.querySelectorAll('*')].flatMap(one => [...one.attributes].map(each => each.value)).join(' ')"""


def named(report: Report, payload: str, number: int) -> Report:
    """The report of a node that calls everything so; each second GPU is of a known model, so that its page has predictions."""
    texts = dict.fromkeys(("label", "node", "source", "cloud", "region"), payload)
    if number % 2:
        texts |= {"name": payload, "instance": payload}
    device = replace(report.device, uuid=f"{number}{payload}", static={"driver_version": payload, payload: payload}, **texts)
    owners = [replace(owner, **dict.fromkeys(("process", "user", "container", "pod"), payload)) for owner in report.owners]
    owners = [replace(owner, slurm_job=f"{number // 2}{payload}" if owner.slurm_job else "") for owner in owners]
    cycles = tuple(replace(cycle, evidence=payload) for cycle in report.detection.cycles)
    detection = replace(report.detection, cycles=cycles)
    return replace(report, device=device, owners=tuple(owners), detection=detection)


@pytest.fixture
def hostile(
    request: pytest.FixtureRequest, tmp_path: Path, advisor: Advisor, backends: Registry
) -> Iterator[tuple[str, Service]]:
    """A payload, and a service all of whose sources, jobs and plans are called so."""
    payload = request.param

    def write(store: StateStore) -> None:
        with_names = StateStore(tmp_path / "fleet.db")
        fill(with_names)
        reports = [named(report, payload, number) for number, report in enumerate(with_names.reports().values())]
        with_names.close()
        store.write_gpus([GpuChange(report, report.epochs) for report in reports])

    status = SourceStatus("node", payload, False, f"{payload} does not answer", 900, 7)
    report = WatcherReport(WatcherHealth(store_error=payload), [status])
    workers: Any = AtOnce()
    for parts in made(
        Settings(state=tmp_path / "state.db", read_only=False, hosts=["testserver"]),
        write,
        advisor,
        workers,
        backends,
        lambda: report,
    ):
        for job in parts.analysis.snapshot.jobs:
            parts.store.write_plan(job, {"epochs": 90, **dict.fromkeys(("instance", "cloud", "region"), payload)})
        parts.analysis.round()
        with serving(parts) as service:
            yield payload, service


@pytest.mark.parametrize("hostile", RUNS, indirect=True)
def test_what_telemetry_plans_and_uploads_say_is_text(hostile: tuple[str, Service], chromium: Any, tmp_path: Path) -> None:
    payload, service = hostile
    context = chromium.new_context(bypass_csp=True)
    page = context.new_page()
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))

    def is_not_executed() -> None:
        """Neither at the page's load, nor at its refresh, nor by focus or mouse."""
        if page.evaluate("typeof refresh") == "function":
            page.evaluate("refresh()")
        page.evaluate(TOUCH)
        page.wait_for_timeout(50)
        assert page.evaluate("typeof owned") == "undefined", page.url
        assert page.locator("iframe, [onerror], [onload], [onfocus], [ontoggle], [href^='javascript:']").count() == 0

    def is_text() -> None:
        assert payload in page.evaluate(TEXTS), page.url
        is_not_executed()

    try:
        jobs, gpus = service.api("/jobs")["jobs"], service.api("/gpus")["gpus"]
        assert len(jobs) > 4 and len(gpus) == 10
        addresses = [f"/jobs/{quote(job['id'], safe='')}" for job in jobs]
        for address in ("/", *addresses):
            assert page.goto(service.url + address).status == 200, address
            is_text()
        for address in ("jobs", "page"):
            assert page.goto(f"{service.url}/{address}/none{quote(payload, safe='')}").status == 404
            is_not_executed()
        profile = json.dumps(example_profile() | {"gpu": payload}).encode()
        trace = f"time,{payload.replace(',', ' ')}\n{payload}\n".encode()
        for content in (profile, json.dumps(example_profile()).encode(), trace):
            page.goto(f"{service.url}/try")
            page.set_input_files("#file", {"name": payload.replace("/", "_"), "mimeType": payload, "buffer": content})
            page.eval_on_selector("#gpu", CHOOSE, payload if content is profile else "T4")
            page.get_by_role("button", name="Predict").click()
            page.wait_for_load_state()
            page.locator("[role=alert], .ranked").first.wait_for(state="attached")
            is_not_executed()
    finally:
        context.close()
