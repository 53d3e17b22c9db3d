"""``epochcast serve`` as a real process: its start, its watcher that dies, its end."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pandas as pd
import psutil
import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.service import watcher_process
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.process import _Server, build, listening
from epochcast.analyzer.service.watcher_process import WatcherProcess
from epochcast.analyzer.traces.trace import Trace, write_trace
from lab.simulator import simulate

from ...processes import wait_until

COMMAND = (sys.executable, "-m", "epochcast.analyzer", "serve")


class Service:
    """A running service with a trace file as its telemetry."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        made = simulate(seed=3, epochs=12, epoch_s=12.0)
        columns = {name: made.metrics[name] for name in ("dram_active", "sm_active", "power")}  # more take longer to search
        trace = Trace(pd.DataFrame({"time": made.time, **columns}), gpu="Tesla T4", uuid="GPU-t4", source="replay")
        write_trace(trace, folder / "run.parquet")
        port_file = folder / "port"
        config = folder / "analyzer.toml"
        config.write_text(
            f'port = 0\nport_file = "{port_file}"\nstate = "{folder}/state.db"\n'
            f'{settings}[[files]]\npath = "{folder}/*.parquet"\n'
        )
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*COMMAND, "--config", str(config)], stderr=log)
        port = wait_until(lambda: port_file.read_text() if port_file.exists() else None)
        self.client = httpx2.Client(base_url=f"http://127.0.0.1:{port.strip()}", timeout=30)

    def metric(self, name: str) -> float:
        (line,) = (line for line in self.client.get("/metrics").text.splitlines() if line.startswith(f"{name} "))
        return float(line.split()[-1])

    @property
    def children(self) -> dict[int, str]:
        """Processes that it started: pid -> command line."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.NoSuchProcess):  # it ended while we looked
                found[child.pid] = " ".join(child.cmdline())
        return found

    @property
    def watcher(self) -> int | None:
        return next((pid for pid, command in self.children.items() if "spawn_main" in command), None)


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture
def service(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Service]:
    running = Service(tmp_path, getattr(request, "param", ""))
    yield running
    if running.process.poll() is None:
        running.process.kill()
    running.process.wait()


def test_a_watcher_that_is_killed_is_started_again_and_everything_ends_with_the_service(service: Service) -> None:
    client = service.client
    job = wait_until(lambda: next(iter(client.get("/api/v1/jobs").json()["jobs"]), None))
    assert job["gpus"] == ["GPU-t4"]
    prediction = client.get(f"/api/v1/jobs/{job['id']}/recommendation").json()
    assert prediction["gpus"][0]["profile"]["epoch_s"] == pytest.approx(12.2, rel=0.02)

    killed = service.watcher
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: service.metric("epochcast_analyzer_watcher_restarts_total") == 1)
    wait_until(lambda: service.metric("epochcast_analyzer_watcher_up") == 1)
    assert service.watcher not in (None, killed)
    assert client.get(f"/api/v1/jobs/{job['id']}").status_code == 200

    # A worker process is there too when all of it is to end.
    body = b"time,gpu_utilization\n1,0.5\n2,0.6\n"
    assert client.post("/api/v1/traces/detections", content=body, headers={"Content-Type": "text/csv"}).status_code == 200
    children = list(service.children)
    assert len(children) >= 3
    service.process.send_signal(signal.SIGTERM)
    assert service.process.wait(60) == 0
    wait_until(lambda: all(map(_is_gone, children)))
    assert "Traceback" not in service.log.read_text()


def test_a_service_that_is_killed_leaves_no_process_behind(service: Service) -> None:
    body = b"time,gpu_utilization\n1,0.5\n2,0.6\n"
    sent = service.client.post("/api/v1/traces/detections", content=body, headers={"Content-Type": "text/csv"})
    assert sent.status_code == 200, sent.text
    children = list(service.children)
    service.process.kill()
    service.process.wait()
    wait_until(lambda: all(map(_is_gone, children)))


def test_a_header_of_a_proxy_makes_nobody_another_client() -> None:
    """Not from localhost either, which uvicorn trusts by default: no proxy is configured."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert not _Server(object(), listener, Settings()).config.proxy_headers
        allowed = _Server(object(), listener, Settings(proxies=["10.0.0.1"])).config  # type: ignore[list-item]
    assert allowed.proxy_headers and allowed.forwarded_allow_ips == ["10.0.0.1/32"]


def test_what_keeps_it_from_starting_is_one_sentence(tmp_path: Path) -> None:
    config = tmp_path / "analyzer.toml"
    config.write_text("portt = 1\n")
    done = subprocess.run([*COMMAND, "--config", str(config)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"epochcast: the configuration {config} has the unknown setting 'portt'; did you mean 'port'?\n"

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(InputError, match=rf"cannot listen on 127\.0\.0\.1 port {port}: Address already in use"):
            listening(Settings(port=port))
    with pytest.raises(InputError, match=r"cannot listen on 192\.0\.2\.1"):
        listening(Settings(host="192.0.2.1"))
    with pytest.raises(InputError, match="cannot be read"):
        build(Settings(token_file=tmp_path / "none", state=tmp_path / "state.db"))
    with pytest.raises(InputError, match=r"backend 'convmeterr', which is not installed; installed are convmeter"):
        build(Settings(backends={"convmeterr": {}}, state=tmp_path / "state.db"))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        build(Settings(state=tmp_path / "file" / "state.db"))


def test_a_watcher_that_hangs_is_reported_ended_and_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = WatcherProcess((), tmp_path / "state.db", 30.0, None)
    watcher.start()
    try:
        wait_until(lambda: watcher.report.health)
        assert watcher.problem == ""
        assert watcher._process is not None
        child = psutil.Process(watcher._process.pid)
        monkeypatch.setattr(watcher_process, "_SILENT_S", 4.0)
        child.suspend()
        wait_until(lambda: "has not reported" in watcher.problem)
        wait_until(lambda: watcher.restarts == 1)
        monkeypatch.setattr(watcher_process, "_SILENT_S", 60.0)
        wait_until(lambda: not watcher.problem)
        assert not child.is_running()
    finally:
        watcher.stop()
