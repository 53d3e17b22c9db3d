"""Progress on stderr where it is no terminal."""

import pytest

from epochcast.analyzer.cli import progress


def test_a_log_has_a_line_a_minute(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress.time, "strftime", lambda _: "12:00:00")
    progress.clear()
    for second in (0, 30, 59, 61, 90, 122):
        monkeypatch.setattr(progress.time, "monotonic", lambda now=1000.0 + second: now)
        progress.show(f"after {second} s")
    progress.clear()
    assert capsys.readouterr().err == "12:00:00 after 61 s\n12:00:00 after 122 s\n"
