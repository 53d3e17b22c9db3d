"""The report is one safe, self-contained file that says what was found, what was not, and what is simulated."""

import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.demo.report import write_report
from epochcast.analyzer.demo.run import compare
from epochcast.analyzer.traces.trace import Trace
from epochcast.detector import Detection, Epoch
from epochcast.detector.labels import Labels

from .conftest import Demo

STARTS = tuple(1000.0 + 10 * k for k in range(6))
NOTHING = {"true_period_s": None, "period_s": None, "verdict": "none", "confidence": 0.0, "found": False}


def compared(period: float, **changes: Any) -> dict[str, Any]:
    """What the report is told of a detection of ``period`` where epochs last 10 s."""
    time = 995.0 + 0.1 * np.arange(700)
    trace = Trace(pd.DataFrame({"time": time, "dram_active": (time % 10) / 10}))
    epochs = tuple(Epoch(1000.0 + k * period, 1000.0 + (k + 1) * period, 0.9) for k in range(6))
    found = Detection("epochs", period, None, epochs, 0.9, "track", "wall")
    return compare(trace, Labels(STARTS, tuple(start + 10 for start in STARTS), training=True), replace(found, **changes))


def render(folder: Path, content: dict[str, Any]) -> str:
    return write_report(content, {}, folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def content(demo: Demo) -> dict[str, Any]:
    return deepcopy(demo.summary)


def test_one_file_without_script_or_anything_from_elsewhere(demo: Demo) -> None:
    page = (demo.folder / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"<(?:script|link|iframe|object|form)\b|<[^>]* on\w+=", page)
    assert all(value.startswith(("data:", "#")) for value in re.findall(r'(?:src|href)="([^"]*)', page))
    assert page.count("<svg") == 4
    assert page.index("<h2>A training on a GPU") < page.index("<h2>Recommendation") < page.index("<h2>A real network")


def test_texts_from_outside_are_escaped(tmp_path: Path, content: dict[str, Any]) -> None:
    evil = '<img src=x onerror="alert(1)">'
    content |= {"headline": evil, "problems": [evil], "command": evil, "machine": evil}
    content["predictions"][0]["why"] = content["live"]["sentence"] = content["replay"]["gpu"] = evil
    page = render(tmp_path, content)
    assert "<img src=x" not in page
    assert page.count("&lt;img src=x") == 7


def test_simulated_is_said_wherever_something_rests_on_it_and_not_where_it_was_recorded(
    tmp_path: Path, content: dict[str, Any]
) -> None:
    page = render(tmp_path, content)
    assert page.count('class="badge simulated"') == 3
    assert "No GPU was measured" in page
    content["replay"]["simulated"] = False
    page = render(tmp_path, content)
    assert 'class="badge simulated"' not in page and "simulated profile" not in page
    assert "recorded</span>" in page


@pytest.mark.parametrize(
    ("live", "hit", "words"),
    [
        (compared(10.1), True, "1.0 % off"),
        (compared(20.0), False, "2.00 times the true 10.00 s"),
        (
            compared(10.0, verdict="none", period_s=None, epochs=(), confidence=0.3),
            False,
            "gave no answer (confidence 0.30)",
        ),
        (
            compared(10.0, verdict="none", period_s=None, epochs=(), reason="too_few_samples"),
            False,
            "The detector gave no answer; true epochs are 10.00 s long. No epochs found: too few samples. Record for longer",
        ),
    ],
)
def test_what_was_not_recognised_is_said_without_alarm(
    tmp_path: Path, content: dict[str, Any], live: dict[str, Any], hit: bool, words: str
) -> None:
    content["live"] |= live
    page = render(tmp_path, content)
    assert content["live"]["found"] is hit
    assert ("<b>Not recognised.</b>" in page) is not hit
    assert 'class="error"' not in page
    assert words in page


def test_parts_that_failed_are_left_out_and_named(tmp_path: Path, content: dict[str, Any]) -> None:
    content |= {"live": NOTHING, "replay": NOTHING | {"simulated": True}, "predictions": []}
    content |= {"recommendation": None, "problems": ["Live training: no agent answers."]}
    page = render(tmp_path, content)
    assert 'class="error"' in page and "no agent answers" in page
    assert "<h2>A real network" not in page and "<h2>Predictions" not in page
