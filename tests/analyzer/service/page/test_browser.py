"""The page in headless Chromium: by keyboard, on phone and desktop, dark and light, its numbers against the API's."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from epochcast.analyzer.jobs.questions import example_profile
from epochcast.analyzer.live.state_store import GpuChange

from .conftest import Service

SIZES = {"phone": (390, 844), "desktop": (1440, 900)}
PAGES = {
    "overview": "/",
    "job": "/jobs/slurm-1234",
    "try": "/try",
    "missing": "/jobs/none",
}
PICTURED = ("overview", "job")
SEEN = (("phone", "dark"), ("desktop", "light"))  # pictures take long: each size and each theme once, unless they are kept

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")

# Texts of tables that are wider than their frame.
CUT = """[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 1)
  .map(one => one.textContent.trim().slice(0, 40))"""

# Of each row of the predictions: the GPU, the numbers in full, and where interval and point are drawn [per cent].
ROW = """rows => rows.map(row => [
  row.querySelector('th').firstChild.data.trim(),
  [...row.querySelectorAll('data')].map(one => Number(one.value)),
  [['line.range', 'x1'], ['circle', 'cx'], ['line.range', 'x2']].map(
    ([drawn, place]) => parseFloat(row.querySelector(drawn).getAttribute(place))),
])"""

# A page that asks for news when the test does.
QUIET = "for (let timer = 0; timer < 99; timer++) clearInterval(timer)"
# The page's policy refuses the `eval` with which wait_for_function looks again: these wait by themselves.
AT_REST = """async () => {
  for (let before = null; before !== scrollY; await new Promise(done => setTimeout(done, 200))) before = scrollY;
}"""
LOST, BACK = (
    f"async () => {{ do await refresh(); while (document.getElementById('lost').hidden === {lost}); }}"
    for lost in ("true", "false")
)

# Where `docs/images/page/` shall be written again: the folder. Else the pictures go to the test's own.
IMAGES = os.environ.get("EPOCHCAST_PAGE_IMAGES")


class Watched:
    """A page, with what it asked of other hosts and complained about."""

    def __init__(self, context: Any, service: Service) -> None:
        self.page = context.new_page()
        self.service = service
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._asked)

    def open(self, path: str) -> Any:
        self.page.goto(self.service.url + path)
        return self.page

    def resize(self, size: str) -> None:
        width, height = SIZES[size]
        self.page.set_viewport_size({"width": width, "height": height})

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(self.service.url + "/"):
            self.complaints.append(f"requested {request.url}")


@pytest.fixture(scope="module")
def window(chromium: Any, served: Service) -> Iterator[Watched]:
    """One for all tests, as opening it takes longer than most of them."""
    context = chromium.new_context(reduced_motion="reduce")  # else links fade from theme to theme
    yield Watched(context, served)
    context.close()


@pytest.fixture
def watched(window: Watched, service: Service) -> Iterator[Watched]:
    """A window that has nothing to complain about."""
    window.complaints.clear()
    window.page.emulate_media(color_scheme="light")
    yield window
    assert window.complaints == []


@pytest.fixture
def desktop(watched: Watched) -> Watched:
    watched.resize("desktop")
    return watched


def focused(page: Any) -> str:
    """Address or text of what has the focus."""
    return str(page.evaluate("(one => one.getAttribute('href') || one.textContent.trim())(document.activeElement)"))


def tab_to(page: Any, wanted: str, *, key: str = "Tab") -> None:
    for _ in range(60):
        page.keyboard.press(key)
        if focused(page).startswith(wanted):
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", f"the focus on {wanted} cannot be seen"
            return
    pytest.fail(f"{wanted} cannot be reached by {key}")


def numbers(page: Any, selector: str) -> list[tuple[float, str]]:
    """Value and text of each `<data>` below ``selector``."""
    found = page.eval_on_selector_all(f"{selector} data", "all => all.map(one => [one.value, one.textContent])")
    return [(float(value), text) for value, text in found]


def test_a_job_is_found_and_left_by_keyboard(desktop: Watched) -> None:
    page = desktop.open("/")
    page.keyboard.press("Tab")
    assert focused(page) == "#content"  # the skip link comes first
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    tab_to(page, "/jobs/slurm-1234")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/slurm-1234")
    tab_to(page, "All ")
    assert not page.locator(".ranked").is_visible()
    page.keyboard.press("Enter")
    assert page.locator(".ranked").is_visible()
    tab_to(page, "/")
    page.keyboard.press("Enter")
    page.wait_for_url(desktop.service.url + "/")


def test_each_prediction_is_drawn_where_its_number_is(desktop: Watched) -> None:
    page = desktop.open("/jobs/slurm-1234")
    answered = {one["gpu"]: one for one in desktop.service.api("/jobs/slurm-1234")["answer"]["predictions"]}
    ticks = page.eval_on_selector_all(
        ".axis text", "all => all.map(one => [parseFloat(one.getAttribute('x')), one.textContent])"
    )
    (first, low), *_, (last, high) = [(place, float(text.replace(",", ""))) for place, text in ticks]
    logarithmic = "logarithmic" in page.locator("#prediction .legend").text_content()
    unit = {"s": 1, "min": 60, "h": 3600, "ms": 1e-3}[page.locator(".predictions thead th").nth(1).text_content().split()[0]]

    def drawn(place: float) -> float:
        """The value at a place, by the ticks' texts alone."""
        part = (place - first) / (last - first)
        return unit * (low * (high / low) ** part if logarithmic else low + part * (high - low))

    rows = page.eval_on_selector_all(".predictions tbody tr", ROW)
    assert len(rows) == len(answered) > 20
    before = 0.0
    for name, values, places in rows:
        one = answered[name.removeprefix("4 × ")]  # GPUs of the job
        assert values == pytest.approx([one["seconds"], one["ratio"], one["low"], one["high"]])
        assert [drawn(place) for place in places] == pytest.approx([one["low"], one["seconds"], one["high"]], rel=0.005)
        assert one["seconds"] >= before
        before = one["seconds"]


def sure_by(service: Service, confidence: float) -> None:
    """Let GPU 0 of node 1 be so sure."""
    before = service.parts.store.reports()["GPU-node-1-0"]
    service.parts.store.write_gpus([GpuChange(replace(before, detection=replace(before.detection, confidence=confidence)))])
    service.parts.analysis.round()


@pytest.mark.parametrize("path", ["/jobs/slurm-1234", "/"])
def test_a_page_changes_when_the_fleet_does_and_is_not_loaded_again(desktop: Watched, path: str) -> None:
    page = desktop.open(path)
    page.evaluate("loaded = 'once'")
    before = desktop.service.parts.store.reports()["GPU-node-1-0"].detection.confidence
    try:
        sure_by(desktop.service, 0.83)
        page.get_by_text("83 %").first.wait_for(timeout=60_000)
    finally:
        sure_by(desktop.service, before)
    page.get_by_text("83 %").first.wait_for(state="detached", timeout=60_000)
    assert page.evaluate("loaded") == "once"


def test_news_come_without_losing_focus_place_or_what_is_unfolded(desktop: Watched) -> None:
    page = desktop.open("/jobs/slurm-1234")
    page.evaluate(QUIET)
    tab_to(page, "All ")
    page.keyboard.press("Enter")
    tab_to(page, "What each")
    page.evaluate(AT_REST)
    scrolled = page.evaluate("scrollY")
    parts = desktop.service.parts
    before = parts.store.reports()["GPU-node-1-0"]
    try:
        # Still sure (0.8): below, notes and hints would come and go, and whether the browser scrolls by their height varies.
        parts.store.write_gpus([GpuChange(replace(before, detection=replace(before.detection, confidence=0.87)))])
        parts.analysis.round()
        assert "87" not in page.locator("#gpu-GPU-node-1-0").text_content()
        page.evaluate("refresh()")
        assert "87" in page.locator("#gpu-GPU-node-1-0").text_content()
    finally:
        parts.store.write_gpus([GpuChange(before)])
        parts.analysis.round()
    assert focused(page).startswith("What each")
    page.evaluate(AT_REST)
    assert page.evaluate("scrollY") == scrolled
    assert page.locator(".ranked").is_visible()


def test_a_service_that_hangs_is_said_and_ages_go_on(desktop: Watched) -> None:
    page = desktop.page
    page.clock.install()
    desktop.open("/")
    age = page.locator("#gpus time").first.text_content()
    page.route("**/*", lambda route: None)
    try:
        page.clock.run_for(7_000)
        page.locator("#lost").wait_for(timeout=60_000)
        assert page.locator("#gpus time").first.text_content() != age
    finally:
        page.unroute("**/*")
    page.evaluate(BACK)
    desktop.complaints[:] = [one for one in desktop.complaints if "ERR_" not in one]


def test_a_service_that_does_not_answer_is_said(desktop: Watched) -> None:
    page = desktop.open("/")
    assert not page.locator("#lost").is_visible()
    page.route("**/*", lambda route: route.abort())
    try:
        # Again and again: an answer that was on its way may come after the one that is lost.
        page.evaluate(LOST)
    finally:
        page.unroute("**/*")  # the other tests have the same window
    page.evaluate(BACK)
    desktop.complaints[:] = [one for one in desktop.complaints if "ERR_FAILED" not in one]  # as requested


def test_it_works_without_script(chromium: Any, service: Service) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(service.url + "/")
    page.get_by_role("link", name="Slurm job 1234").first.click()
    assert page.locator("h1").text_content().startswith("Slurm job 1234")
    page.locator("summary", has_text="All ").click()
    assert page.locator(".ranked").is_visible()
    context.close()


@pytest.mark.parametrize(
    ("sent", "said"),
    [(json.dumps(example_profile()).encode(), "Where it would run best"), (b"x" * 300 + b"\n1\n", "No answer.")],
)
def test_an_answer_to_what_is_sent_fits_a_phone(watched: Watched, sent: bytes, said: str) -> None:
    watched.resize("phone")
    page = watched.open("/try")
    page.set_input_files("#file", {"name": "run.json", "mimeType": "application/octet-stream", "buffer": sent})
    page.get_by_role("button", name="Predict").click()
    page.get_by_text(said).first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES["phone"][0]
    assert page.evaluate(CUT) == []
    notes = page.locator(".notes li").all_inner_texts()
    assert len(notes) == len(set(notes)), "each note once"
    watched.complaints[:] = [one for one in watched.complaints if "422" not in one]  # what is not answered


@pytest.mark.parametrize("name", PAGES)
def test_it_fits_and_can_be_read(watched: Watched, tmp_path: Path, name: str) -> None:
    page = watched.open(PAGES[name])
    assert page.locator("h1").count() == 1
    for size, theme in product(SIZES, ("light", "dark")):
        watched.resize(size)
        page.emulate_media(color_scheme=theme)
        assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (theme == "dark")
        assert page.evaluate("innerWidth") == SIZES[size][0]
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0], f"wider than the {size}"
        assert page.evaluate(CUT) == [], f"tables hide figures beyond their edge on the {size}"
        assert page.evaluate(CONTRAST) == [], f"texts are too pale on {size}, {theme}"
        if name in PICTURED and (IMAGES or (size, theme) in SEEN):
            file = (Path(IMAGES) if IMAGES else tmp_path) / f"{name}-{size}-{theme}.png"
            page.screenshot(path=file, full_page=True)
            assert file.stat().st_size > 20_000
            if IMAGES:
                Image.open(file).quantize(256).save(file, optimize=True)
    if name == "missing":
        watched.complaints[:] = [one for one in watched.complaints if "404" not in one]
