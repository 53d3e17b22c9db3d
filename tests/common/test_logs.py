"""Log lines as a reader, the journal and a log shipper get them."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

SCRIPT = """
import logging, sys
from epochcast.common import logs
for log_format in sys.argv[1:]:
    logs.setup(log_format)
    log = logging.getLogger("epochcast.test")
    log.debug("not shown")
    log.info("a %s", "value")
    log.warning("two\\nlines, ünïcode and \\udcff")
    try:
        1 / 0
    except ZeroDivisionError:
        log.exception("it broke")
"""


def lines(stderr: Path, *formats: str, env: dict[str, str] | None = None) -> list[str]:
    """Return what a process wrote to the file ``stderr`` that logged the same four things in each of ``formats``."""
    with stderr.open("wb") as file:
        environment = os.environ | {"PYTHONIOENCODING": "utf-8:backslashreplace"} | (env or {})
        subprocess.run([sys.executable, "-c", SCRIPT, *formats], stderr=file, env=environment, check=True, timeout=120)
    return stderr.read_text(encoding="utf-8").splitlines()


def journal(file: Path) -> dict[str, str]:
    """Return the environment of a service whose stderr is the journal, for which ``file`` stands in."""
    file.touch()
    return {"JOURNAL_STREAM": f"{file.stat().st_dev}:{file.stat().st_ino}"}


def test_text_is_a_line_with_time_level_and_logger(tmp_path: Path) -> None:
    # A stderr that is redirected is not the journal.
    first, *rest = lines(tmp_path / "log", "text", env=journal(tmp_path / "elsewhere"))
    assert first.split(" ", 2)[2] == "INFO epochcast.test: a value"
    assert datetime.strptime(first[:23], "%Y-%m-%d %H:%M:%S,%f").year >= 2025
    assert "ZeroDivisionError: division by zero" in rest[-1]
    assert not any("not shown" in line for line in [first, *rest])


def test_the_journal_gets_a_priority_on_every_line_and_no_second_clock(tmp_path: Path) -> None:
    written = lines(tmp_path / "log", "text", env=journal(tmp_path / "log"))
    assert written[0] == "<6>INFO epochcast.test: a value"
    assert written[1] == "<4>WARNING epochcast.test: two"
    assert written[2].startswith("<4>lines")
    assert written[3] == "<3>ERROR epochcast.test: it broke"
    assert len(written) > 5
    assert all(line.startswith("<3>") for line in written[3:])


@pytest.mark.parametrize("under_journal", [False, True])
def test_json_is_one_object_per_line(tmp_path: Path, under_journal: bool) -> None:
    written = lines(tmp_path / "log", "json", env=journal(tmp_path / "log") if under_journal else None)
    info, warning, error = map(json.loads, written)
    assert set(info) == {"time", "level", "logger", "message"}
    assert (info["level"], info["logger"], info["message"]) == ("INFO", "epochcast.test", "a value")
    assert info["time"].endswith("Z")
    assert len(info["time"]) == len("2026-01-01T00:00:00.000Z")
    assert abs((datetime.now(UTC) - datetime.fromisoformat(info["time"])).total_seconds()) < 3600
    assert warning["message"].startswith("two\nlines, ünïcode")
    assert error["level"] == "ERROR"
    assert error["message"] == "it broke"
    assert error["exception"].startswith("Traceback")
    assert error["exception"].endswith("ZeroDivisionError: division by zero")


def test_a_reload_changes_the_format_without_doubling_lines(tmp_path: Path) -> None:
    written = lines(tmp_path / "log", "text", "json", "text")
    assert len([line for line in written if line.endswith("a value")]) == 2
    assert len([line for line in written if line.startswith("{")]) == 3
