"""What `epochcast detect` prints for answers made by hand: times, confidence, samples, stretches, reasons."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.jobs.cycles import REASONS
from epochcast.analyzer.traces.trace import Trace, write_trace
from epochcast.detector import Detection, Epoch, Reason, Stretch

Printed = Callable[..., list[str]]

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC).timestamp()
EPOCHS = (Epoch(NOON + 18.78, NOON + 24.02, 0.45), Epoch(NOON + 24.02, NOON + 124.02, 0.9))
FOUND = Detection("epochs", 5.156, None, EPOCHS, 0.91, "track", "wall", samples_per_epoch=103.12)
NOTHING = Detection("none", None, None, (), 0.41, "track", "wall")
STRETCHES = (Stretch(NOON + 5, NOON + 85, 20.0, 0.9, 4), Stretch(NOON + 90.25, NOON + 390.25, 30.0, 0.85, 10))


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Printed:
    """Lines that the command prints where the detector answers so, on a trace that begins at noon."""
    time = NOON + np.arange(10.0)
    trace = write_trace(Trace(pd.DataFrame({"time": time, "power": time - NOON})), tmp_path / "run.csv")

    def answer(found: Detection, *options: str, status: int = 0) -> list[str]:
        monkeypatch.setattr("epochcast.analyzer.cli.detect.find_epochs", lambda *_, **__: found)
        assert main(["detect", str(trace), *options]) == status
        return capsys.readouterr().out.splitlines()

    return answer


def test_epochs_count_from_the_first_sample_and_have_utc_and_confidence(printed: Printed) -> None:
    assert printed(FOUND) == [
        "2 epochs, period 5.156 s (method track, wall clock, confidence 0.91, 103 samples per epoch)",
        "    1  at 18.78 s (2025-03-01 12:00:18.8 UTC)  length   5.24 s  confidence 0.45",
        "    2  at 24.02 s (2025-03-01 12:00:24.0 UTC)  length 100.00 s  confidence 0.90",
    ]


def test_several_stretches_come_before_the_epochs(printed: Printed) -> None:
    assert printed(replace(FOUND, period_s=30.0, stretches=STRETCHES))[1:4] == [
        "the period changes; this is the period of the longest stretch:",
        "  stretch 1  from  5.00 s (2025-03-01 12:00:05.0 UTC)  to  85.00 s  period 20.000 s  epochs  4  confidence 0.90",
        "  stretch 2  from 90.25 s (2025-03-01 12:01:30.2 UTC)  to 390.25 s  period 30.000 s  epochs 10  confidence 0.85",
    ]
    assert len(printed(replace(FOUND, stretches=STRETCHES[:1]))) == 3


def test_steps_say_samples_per_cycle(printed: Printed) -> None:
    steps = Detection("steps", 1.37, None, (), 0.93, "track", "wall", step_s=1.37, samples_per_epoch=13.7)
    assert printed(steps) == ["steps of 1.370 s, no epochs (method track, wall clock, confidence 0.93, 13.7 samples per cycle)"]


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        ("too_few_samples", "no epochs found: too few samples. Record for longer, or at a shorter interval."),
        ("no_cycle", "no epochs found: no cycle stands out."),
        (
            "rival_cycles",
            "no epochs found: two cycles are equally likely. Record for longer, or with more metrics.",
        ),
    ],
)
def test_no_answer_says_why(printed: Printed, reason: Reason, sentence: str) -> None:
    assert printed(replace(NOTHING, reason=reason), status=1) == [
        sentence,
        "(method track, wall clock, confidence of the best candidate 0.41)",
    ]
    assert printed(replace(NOTHING, reason=reason, confidence=0.0), status=1)[1] == "(method track, wall clock)"


def test_a_period_that_changes_is_answered_by_its_stretches(printed: Printed) -> None:
    lines = printed(replace(NOTHING, reason="period_changes", stretches=STRETCHES), status=1)
    assert lines[:2] == ["no single epoch length: the period changes.", "(method track, wall clock)"]
    assert [line.split("  ")[1] for line in lines[2:]] == ["stretch 1", "stretch 2"]


def test_every_reason_has_a_sentence() -> None:
    assert set(REASONS) == set(get_args(Reason))


def test_json_relates_its_times_to_the_first_sample(printed: Printed) -> None:
    answer = json.loads("\n".join(printed(replace(FOUND, stretches=STRETCHES), "--json")))
    assert answer["first_sample"] == NOON
    assert answer["epochs"][0]["start"] - answer["first_sample"] == pytest.approx(18.78)
    assert answer["stretches"][0]["epochs"] == 4 and isinstance(answer["stretches"][0]["epochs"], int)
    assert (answer["reason"], answer["samples_per_epoch"]) == (None, 103.12)


def test_an_idle_gpu_is_said_as_recommend_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{1.7e9 + second},0.0,50.0\n" for second in range(300))
    (tmp_path / "idle.csv").write_text(f"time,gpu_utilization,power\n{rows}")
    assert main(["detect", str(tmp_path / "idle.csv")]) == 1
    assert "the GPU is idle (gpu_utilization is 0 % on average)" in capsys.readouterr().out
