"""What systemd would receive: a real datagram socket in its place."""

import os
import socket
import time
from pathlib import Path

import pytest

from epochcast.common.notify import notify, reloading, watchdog_interval


@pytest.fixture(autouse=True)
def _no_service_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("abstract", [False, True])
def test_a_state_arrives_as_one_datagram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool) -> None:
    name = f"@epochcast-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0") if abstract else name)
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        notify("READY=1\nSTATUS=8 GPUs at 10 Hz, größer als 0")
        assert manager.recv(4096).decode() == "READY=1\nSTATUS=8 GPUs at 10 Hz, größer als 0"
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        notify(reloading())
        state, moment = manager.recv(4096).decode().split("\n")
        assert state == "RELOADING=1"
        assert before <= int(moment.removeprefix("MONOTONIC_USEC=")) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


@pytest.mark.parametrize("address", ["", "relative", "vsock:2:1", "/nowhere/notify", "@nobody-listens-here"])
def test_without_a_manager_that_listens_nothing_happens(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    notify("READY=1")


def test_a_manager_that_does_not_read_does_not_hold_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        # A blocking sender would never come back from a full queue.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filler:
            filler.setblocking(False)
            with pytest.raises(BlockingIOError):
                while True:
                    filler.sendto(b"x", str(tmp_path / "notify"))
        notify("WATCHDOG=1")


@pytest.mark.parametrize(
    ("timeout", "pid", "seconds"),
    [
        ("30000000", None, 15.0),
        pytest.param("30000000", str(os.getpid()), 15.0, id="this-process"),
        ("30000000", "1", None),
        ("0", None, None),
        ("soon", None, None),
        (None, None, None),
    ],
)
def test_half_of_the_watchdogs_patience(
    monkeypatch: pytest.MonkeyPatch, timeout: str | None, pid: str | None, seconds: float | None
) -> None:
    for name, value in (("WATCHDOG_USEC", timeout), ("WATCHDOG_PID", pid)):
        if value is not None:
            monkeypatch.setenv(name, value)
    assert watchdog_interval() == seconds
