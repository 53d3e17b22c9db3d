"""The report is one safe, self-contained file that shows hits as hits, misses as misses and simulations as simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from epochcast.analyzer.demo.report import write_report
from epochcast.analyzer.demo.run import compare
from epochcast.analyzer.figures import cost_figure, detection_figure, page_svg
from epochcast.analyzer.figures.chart import chart_figure
from epochcast.analyzer.instances import load_instances
from epochcast.analyzer.plugins.chart import Ratio, Ratios
from epochcast.analyzer.recommendation import recommend
from epochcast.analyzer.traces.trace import Trace
from epochcast.detector import Detection, Epoch
from epochcast.detector.labels import Labels
from epochcast.regressor import Prediction, load_catalog

STARTS = tuple(1000.0 + 10 * k for k in range(6))
LABELS = Labels(STARTS, tuple(start + 10 for start in STARTS), training=True)
GPUS = ("T4", "L4", "A10G", "A100 SXM4 40GB")


def trace() -> Trace:
    time = 995.0 + 0.1 * np.arange(700)
    sawtooth = (time % 10) / 10
    return Trace(
        pd.DataFrame({"time": time, "dram_active": sawtooth, "power": 30 + 40 * sawtooth}), gpu="Tesla T4", simulated=True
    )


def found(period: float, *, verdict: str = "epochs") -> Detection:
    epochs = tuple(Epoch(1000.0 + k * period, 1000.0 + (k + 1) * period, 0.9) for k in range(6))
    answered = verdict != "none"
    return Detection(
        verdict=verdict,  # type: ignore[arg-type]
        period_s=period if answered else None,
        period_work=None,
        epochs=epochs if answered else (),
        confidence=0.9 if answered else 0.3,
        method="track",
        clock="wall",
    )


def predictions() -> list[Prediction]:
    return [
        Prediction(gpu, ratio, 10 * ratio, 8 * ratio, 13 * ratio, "test", 0.8 * ratio, 1.3 * ratio, "speeds", 1.0, ())
        for gpu, ratio in zip(GPUS, (1.0, 0.6, 0.5, 0.2), strict=True)
    ]


def summary(**changes: Any) -> dict[str, Any]:
    hit = compare(trace(), LABELS, found(10.0))
    instances, _ = load_instances(None, load_catalog())
    ranked = recommend(predictions(), instances, load_catalog()).recommendations
    base: dict[str, Any] = {
        "headline": "All well.",
        "problems": [],
        "live": {**hit, "framework": "numpy", "images": 512, "losses": [2.3, 0.4], "accuracies": [0.1, 0.9]},
        "replay": {**hit, "simulated": True, "gpu": "T4", "speed": 60.0},
        "predictions": [prediction.to_json() for prediction in predictions()],
        "recommendation": {
            "unit": "epoch",
            "verdict": {"action": "move", "text": "Move to <b>", "why": "it is cheaper"},
            "cheapest": ranked[0].to_json(),
            "fastest": ranked[-1].to_json(),
        },
        "command": "epochcast demo",
        "started": "2026-01-01T00:00:00+00:00",
        "seconds": 60.0,
        "machine": "some CPU",
        "versions": {"epochcast": "0.1.0"},
    }
    return base | changes


def ratios(source: str, shown: Sequence[Prediction]) -> Figure:
    return chart_figure(Ratios(source, [Ratio(each.gpu, each.ratio, each.ratio_low, each.ratio_high) for each in shown]))


@cache
def figures() -> dict[str, Figure]:
    instances, _ = load_instances(None, load_catalog())
    drawn = detection_figure(trace(), found(10.0), title="a <title>", true_starts=STARTS)
    return {
        "live": drawn,
        "replay": drawn,
        "predictions": ratios("T4", predictions()),
        "cost": cost_figure(recommend(predictions(), instances, load_catalog()).recommendations),
    }


def render(folder: Path, content: dict[str, Any], drawn: dict[str, Figure] | None = None) -> str:
    return write_report(content, drawn or {}, folder / "report.html").read_text(encoding="utf-8")


class Tags(HTMLParser):
    """Collects tags and their attributes, and that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag


def test_one_file_well_formed_without_script_or_anything_from_elsewhere(tmp_path: Path) -> None:
    page = render(tmp_path, summary(), figures())
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert {tag for tag, _ in tags.attributes}.isdisjoint({"script", "link", "iframe", "object", "form"})
    for tag, attributes in tags.attributes:
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            if name in ("src", "href", "xlink:href"):
                assert value is not None and value.startswith(("data:", "#")), (tag, value)
    assert page.count("<svg") == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html"]


def test_texts_from_outside_are_escaped(tmp_path: Path) -> None:
    evil = '<img src=x onerror="alert(1)">'
    content = summary(headline=evil, problems=[evil], command=evil, machine=evil)
    content["predictions"][0]["why"] = content["live"]["sentence"] = content["replay"]["gpu"] = evil
    page = render(tmp_path, content, {"live": figures()["live"]})
    assert "<img src=x" not in page
    assert page.count("&lt;img src=x") == 7
    assert "a &lt;title&gt;" in page


def test_simulated_is_said_wherever_something_rests_on_it_and_not_where_it_was_recorded(tmp_path: Path) -> None:
    page = render(tmp_path, summary())
    assert page.count('class="badge simulated"') == 3
    assert "No GPU was measured" in page
    recorded = summary()
    recorded["replay"]["simulated"] = False
    page = render(tmp_path, recorded)
    assert 'class="badge simulated"' not in page and "simulated profile" not in page
    assert "recorded</span>" in page


@pytest.mark.parametrize(
    ("detection", "hit", "words"),
    [
        (found(10.1), True, "1.0 % off"),
        (found(20.0), False, "2.00 times the true 10.00 s"),
        (found(10.0, verdict="none"), False, "The detector gave no answer (confidence 0.30)"),
        (
            replace(found(10.0, verdict="none"), reason="too_few_samples"),
            False,
            "The detector gave no answer; true epochs are 10.00 s long. No epochs found: too few samples. Record for longer",
        ),
    ],
)
def test_a_miss_is_shown_as_a_miss_with_its_reason(tmp_path: Path, detection: Detection, hit: bool, words: str) -> None:
    content = summary()
    content["live"] |= compare(trace(), LABELS, detection)
    page = render(tmp_path, content)
    assert content["live"]["found"] is hit
    assert page.count("<b>Missed.</b>") == (0 if hit else 1)
    assert words in page


def test_parts_that_failed_are_left_out_and_named(tmp_path: Path) -> None:
    nothing = {"true_period_s": None, "period_s": None, "verdict": "none", "confidence": 0.0, "found": False}
    content = summary(
        live=nothing,
        replay={**nothing, "simulated": True},
        predictions=[],
        recommendation={"cheapest": None, "fastest": None},
        problems=["Live training: no agent answers."],
    )
    page = render(tmp_path, content)
    assert "no agent answers" in page
    assert "<h2>Live" not in page and "<h2>Predictions" not in page


def test_without_epochs_predictions_are_ratios(tmp_path: Path) -> None:
    bare = [Prediction("L4", 0.6, None, None, None, "test", 0.5, 0.8, "speeds", 1.0, ())]
    content = summary(predictions=[prediction.to_json() for prediction in bare])
    page = render(tmp_path, content, {"predictions": ratios("T4", bare)})
    assert "0.60×" in page


def test_boundaries_are_matched_to_the_nearest_and_judged_by_five_percent() -> None:
    rows = compare(trace(), LABELS, found(10.2))["boundaries"]
    assert [row["difference_s"] for row in rows] == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert [row["within"] for row in rows] == [True, True, True, False, False, False]
    assert rows[0]["true_s"] == pytest.approx(5.0)


def test_figures_take_the_page_colour_and_are_the_same_each_time() -> None:
    first, second = figures.__wrapped__(), figures.__wrapped__()
    for name, figure in first.items():
        drawn = page_svg(figure)
        assert drawn == page_svg(second[name])
        assert drawn.startswith(b"<svg") and b"currentColor" in drawn and b"#010203" not in drawn
