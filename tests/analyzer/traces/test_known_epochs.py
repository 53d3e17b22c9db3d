"""Epochs that are known win over those that are found, and the telemetry checks them."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.known_epochs import known_epochs
from epochcast.analyzer.traces.trace import read_trace

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def marks(run: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A file of this form with the start of each of ten epochs of 6.1 s."""
    first = float(read_trace(run).time[0]) + 1

    def written(form: str) -> Path:
        starts = [first + 6.1 * epoch for epoch in range(11)]
        moments = [pd.Timestamp(start, unit="s").round("ms").isoformat(sep=" ") for start in starts]
        path = tmp_path / form
        path.write_text(
            {
                "starts.csv": "start\n" + "".join(f"{start}\n" for start in starts),
                "spans.csv": "start,end\n" + "".join(f"{start},{start + 6.1}\n" for start in starts[:-1]),
                "history.csv": "_step,_timestamp,train/epoch\n"
                + "".join(f"{n},{start + part * 6.1},{n + part}\n" for n, start in enumerate(starts) for part in (0.0, 0.5)),
                "labels.json": json.dumps({"training": True, "epoch_starts": starts[:-1], "epoch_ends": starts[1:]}),
                "train.log": "".join(f"[{moment}] Epoch {n}/10\n{moment} step\n" for n, moment in enumerate(moments)),
                "clock.log": "".join(f"{moment[11:]} INFO begin\n" for moment in moments),
            }[form]
        )
        return path

    return written


@pytest.mark.parametrize(
    ("form", "pattern", "epochs"),
    [
        ("starts.csv", None, 10),
        ("spans.csv", None, 10),
        ("history.csv", None, 10),
        ("labels.json", None, 10),
        ("train.log", r"Epoch (\d+)/", 10),
        ("clock.log", "begin", 0),  # without a date: only the length is known
    ],
)
def test_marks_win_and_are_checked(
    run: Path, marks: Callable[[str], Path], answered: Callable[..., Any], form: str, pattern: str | None, epochs: int
) -> None:
    options = ["--epochs-from", marks(form), *(["--epochs-pattern", pattern] if pattern else [])]
    found = answered("detect", run, *options)
    assert (found["method"], found["unit"], len(found["epochs"])) == ("known", "epoch", epochs)
    assert found["period_s"] == pytest.approx(6.1, abs=0.002)
    answer = answered("recommend", run, *options)
    assert answer["gpus"][0]["detection"]["method"] == "known"
    (note,) = (note for note in answer["notes"] if "are known from" in note)
    assert f"are known from {form}" in note and "telemetry agrees within 0." in note
    assert ("only their length counts" in note) == (not epochs)


@pytest.mark.parametrize(
    ("epoch_time", "says"), [("6.1s", "telemetry agrees within 0."), ("2m", "telemetry shows 6.12 s instead")]
)
def test_the_time_of_an_epoch(run: Path, capsys: Capture, epoch_time: str, says: str) -> None:
    assert main(["predict", str(run), "--epoch-time", epoch_time, "--target", "A10G"]) == 0
    out, err = capsys.readouterr()
    assert f"from T4 (simulated): {'120' if epoch_time == '2m' else '6.10'} s per epoch" in out.replace(
        "\N{NO-BREAK SPACE}", " "
    )
    assert says in err.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("kind", "unit", "says"), [("checkpoint", "cycle", "to checkpoints ("), ("epoch", "epoch", "to the ends of epochs (")]
)
def test_a_cycle_is_named_by_who_knows(
    run: Path, printed: Callable[..., str], answered: Callable[..., Any], kind: str, unit: str, says: str
) -> None:
    found = answered("detect", run, "--cycle", kind)
    assert (found["unit"], found["cycles"][-1]["kind"], found["method"]) == (unit, kind, "track")
    assert says in printed("detect", run, "--cycle", kind)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((7.0, "marks.csv"), "give one of --epoch-time, --epochs-from and --cycle"),
        ((None, None, "Epoch"), "--epochs-pattern needs the training log"),
        ((-1.0,), "give it above 0"),
        ((None, "one.csv"), "marks 0 epochs, and two are needed; name a wandb run"),
        ((None, "loss.csv"), "no column of times; it has loss: name one 'start'"),
        ((None, "one.csv", "Epoch"), "no line of 'one.csv' has both the pattern and a time"),
        ((None, "one.csv", "("), "is no regular expression"),
    ],
)
def test_what_marks_no_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[Any, ...], says: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text("time\n1\n")
    Path("loss.csv").write_text("loss\n1\n")
    with pytest.raises(InputError, match=says):
        known_epochs(*given)


def test_a_log_that_is_still_being_written_is_followed(
    run: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, log = read_trace(run).frame, tmp_path / "log.csv"
    frame[frame["time"] < frame["time"].iloc[0] + 40].to_csv(log, index=False)

    def wait(_: float) -> None:
        if len(pd.read_csv(log)) == len(frame):
            raise KeyboardInterrupt
        frame.to_csv(log, index=False)

    monkeypatch.setattr("epochcast.analyzer.cli.detect.time", SimpleNamespace(sleep=wait))  # of no other thread
    assert main(["detect", str(log), "--follow"]) == 130
    answers = [line for line in capsys.readouterr().out.splitlines() if " epochs, period 6." in line]
    assert len(answers) == 2 and answers[0] != answers[1]
