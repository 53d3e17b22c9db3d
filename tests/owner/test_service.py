"""The service's page in headless Chromium, next to its API: ten simulated GPUs, real processes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

VALUES = "all => all.map(one => Number(one.value))"
NUMBERS = ("seconds", "ratio", "low", "high")
# Of each row of the predictions: the GPU, and the numbers in full.
ROW = """rows => rows.map(row => [
  row.querySelector('th').firstChild.data.trim(), [...row.querySelectorAll('data')].map(one => Number(one.value))])"""


@pytest.fixture
def demo(service: Callable[..., Any], until: Any) -> Any:
    """A service whose jobs are known."""
    running = service("", "--demo", "--port", "PORT")
    until(lambda: len([job for job in running.json("/api/v1/jobs")["jobs"] if job["epoch_s"] and job["best"]]) >= 4)
    return running


def test_the_page_shows_in_chromium_what_the_api_tells(chromium: Any, demo: Any, until: Any, tmp_path: Path) -> None:
    page = chromium.new_page(viewport={"width": 1440, "height": 900})
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: request.url.startswith(demo.url + "/") or complaints.append(f"asked {request.url}"))

    def overview() -> bool:
        """Whether it shows the jobs as they are just now: they train on."""
        page.goto(demo.url + "/")
        jobs, rows = demo.json("/api/v1/jobs")["jobs"], page.locator(".jobs tbody tr")
        texts, values = rows.all_text_contents(), [row.locator("data").evaluate_all(VALUES) for row in rows.all()]
        shown = {job["id"]: next((n for n, text in enumerate(texts) if job["title"] in text), None) for job in jobs}
        return len(texts) == len(jobs) >= 4 and all(
            (place := shown[job["id"]]) is not None
            and (job["best"] or "–") in texts[place]
            and (job["epoch_s"] is None or job["epoch_s"] in map(pytest.approx, values[place]))
            and (job["savings_cost_ratio"] in (None, *map(pytest.approx, values[place])) or "stay" in texts[place])
            for job in jobs
        )

    until(overview)
    assert page.locator(".gpus tbody tr").count() == len(demo.json("/api/v1/gpus")["gpus"]) >= 9

    (job,) = (job for job in demo.json("/api/v1/jobs")["jobs"] if job["straggler"])
    page.get_by_role("link", name=job["title"]).first.click()
    page.wait_for_url(f"**/jobs/{job['id']}")

    def details() -> bool:
        page.reload()
        result = demo.json(f"/api/v1/jobs/{job['id']}")
        current = result["answer"]["recommendation"]["current"]
        predicted = {f"4 × {one['gpu']}": [one[name] for name in NUMBERS] for one in result["answer"]["predictions"]}
        shown = dict(page.eval_on_selector_all(".predictions tbody tr", ROW))
        return (
            page.locator("#epoch-length data").evaluate_all(VALUES) == [pytest.approx(result["epoch_s"])]
            and current["instance"]["name"] in page.locator(".choice.now .name").text_content()
            and len(shown) > 20
            and shown == {name: pytest.approx(values) for name, values in predicted.items()}
        )

    until(details)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "wider than a phone"
    assert complaints == []
    page.close()
    assert list(tmp_path.glob("epochcast-demo-*"))
    assert demo.stop() == 0
    assert not list(tmp_path.glob("epochcast-demo-*")), "the demo left its state behind"
