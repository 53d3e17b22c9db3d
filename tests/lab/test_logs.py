"""A sample of the generated logs, and the visible ones as their README says."""

from pathlib import Path

import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.traces.job_traces import read_job
from lab.logs import FORMS, PRINTED, judge, make_logs

Capture = pytest.CaptureFixture[str]


def test_a_sample_of_logs_is_read_right(tmp_path: Path) -> None:
    verdicts = [(log, *judge(log, tmp_path / "log")) for log in make_logs(60)]
    assert [(log.form, log.damage, log.locale, why) for log, verdict, why in verdicts if verdict == "wrong"] == []
    assert all("; log with nvidia-smi " in why for log, verdict, why in verdicts if verdict == "refused")
    assert {log.form for log, *_ in verdicts} == {*FORMS, *PRINTED}


@pytest.mark.parametrize(
    ("file", "gpus", "rows", "note"),
    [
        ("cut_last_line.csv.gz", 1, 366, "left out: the last line, which is cut off"),
        ("dst_autumn.csv.gz", 1, 1501, "set back by an hour after 2026-03-29 01:59:59 UTC"),
        ("dmon_DT.log.gz", 1, None, "no time zone"),
        ("five_of_eight_busy_1hz.csv.gz", 8, 1335, "its 8 GPUs are distinguished by the order"),
        ("night_a100_10s.csv.gz", 1, 2836, "no time zone"),
    ],
)
def test_visible_logs(shared_data: Path, file: str, gpus: int, rows: int | None, note: str) -> None:
    traces = [trace for _, trace in read_job([str(shared_data / "logs" / file)])]
    assert len(traces) == gpus and rows in (None, traces[0].time.size)
    assert any(note in one for one in traces[0].notes)


@pytest.mark.parametrize("command", ["detect", "predict", "recommend"])
def test_a_file_without_telemetry_is_refused(shared_data: Path, command: str, capsys: Capture) -> None:
    assert main([command, str(shared_data / "logs" / "two_columns.csv"), *(["--gpu", "T4"] * (command != "detect"))]) == 2
    assert "has no telemetry beside its times, only loss; log the GPU with" in capsys.readouterr().err
