"""``epochcast record`` around a real command, with a real agent on this machine's own telemetry."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from wsgiref.simple_server import WSGIRequestHandler, make_server

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.errors import AgentError, InputError
from epochcast.analyzer.traces.recording import record as record_module
from epochcast.analyzer.traces.recording.agent_client import AgentClient
from epochcast.analyzer.traces.recording.agent_process import agent_process
from epochcast.analyzer.traces.recording.growing_trace import GrowingTrace
from epochcast.analyzer.traces.recording.record import _Collected, record
from epochcast.analyzer.traces.trace import Trace, read_trace, write_trace

from ...processes import wait_until

BUSY = "import time; end = time.monotonic() + 1.2\nwhile time.monotonic() < end: sum(range(1000))"


def test_a_recording_holds_every_tick_of_the_command(tmp_path: Path) -> None:
    out = tmp_path / "run.parquet"
    arguments = [
        "record",
        "--out",
        str(out),
        "--source",
        "host",
        "--json",
        "--",
        sys.executable,
        "-c",
        BUSY,
        "--arch=vit_b_16",
        "--token=S3",
    ]
    command = [sys.executable, "-m", "epochcast.analyzer", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["trace"] == str(out)
    trace = read_trace(out)
    assert len(trace.frame) == answer["samples"]
    assert (trace.source, trace.job, trace.simulated) == ("host", {"command": "vit"}, False)
    # 1.2 seconds at 10 Hz; ticks that a busy machine missed are counted, not hidden.
    assert len(trace.frame) + answer["missed"] >= 10
    busy = trace.metrics(["cpu_utilization"])["cpu_utilization"]
    assert np.nanmin(busy) >= 0 and 0 < np.nanmax(busy) <= 1


@pytest.mark.parametrize("step", [3600, -3600, -60])
def test_a_clock_that_is_set_loses_no_row_uncounted(tmp_path: Path, compiled: Callable[..., Path], step: int) -> None:
    clock = compiled("libset_clock.so", Path(__file__).with_name("set_clock.c"))
    environment = os.environ | {"LD_PRELOAD": str(clock), "SET_CLOCK": str(tmp_path / "clock")}
    steps = f"sleep 2; echo {step} > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/clock; sleep 2.5"
    command = ["record", "--out", str(tmp_path / "run.csv"), "--source", "host", "--json", "--", "sh", "-c", steps]
    command = [sys.executable, "-m", "epochcast.analyzer", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180, env=environment)
    assert done.returncode == 0, done.stderr
    times = read_trace(tmp_path / "run.csv").time
    steps_s = np.diff(times)
    assert (steps_s > 0).all()
    # Set ahead, the rows after it are where the clock is; set back, they go on where the rows before it ended.
    lasted = times[-1] - times[0] - max(step, 0)
    assert 4 < lasted < 20
    assert len(times) >= 20
    assert len(times) + json.loads(done.stdout)["missed"] >= round(lasted * 10)


def test_status_and_samples_are_the_commands_also_where_the_full_disk_holds_our_stderr(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "epochcast.analyzer", "record", "--out", str(tmp_path / "run.csv"), "--source", "host"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*command, "--", "sh", "-c", "sleep 1; exit 7"], stderr=full, check=False, timeout=180)
    assert done.returncode == 7
    assert len(read_trace(tmp_path / "run.csv").frame) >= 3


def test_sigterm_ends_the_command_and_keeps_its_samples(tmp_path: Path) -> None:
    out, growing = tmp_path / "ended.parquet", tmp_path / "ended.host.recording.csv"
    arguments = ["record", "--out", str(out), "--source", "host", "--", "sleep", "600"]
    with subprocess.Popen([sys.executable, "-m", "epochcast.analyzer", *arguments], stderr=subprocess.DEVNULL) as recording:
        wait_until(lambda: growing.read_text().count("\n") > 10)
        written = len(read_trace(growing).frame)
        recording.send_signal(signal.SIGTERM)
        assert recording.wait(60) == 128 + signal.SIGTERM
    assert len(read_trace(out).frame) >= written >= 8


@pytest.mark.parametrize(("status", "expected"), [(0, 1), (7, 7)])
def test_no_sample_is_a_sentence_and_a_failure_of_the_command_its_own_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int, expected: int
) -> None:
    monkeypatch.setattr(_Collected, "poll", lambda collected, end=None: None)  # else a tick may fall even into so short a run
    arguments = ["record", "--out", str(tmp_path / "short.csv"), "--source", "host", "--", "sh", "-c", f"exit {status}"]
    assert main(arguments) == expected
    said = rf"epochcast: the agent gave no sample in the 0\.\d\d s .* ended with status {status}"
    assert re.match(said, capsys.readouterr().err) and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_a_signal_that_comes_during_a_poll_costs_no_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: type[BaseException]
) -> None:
    poll, interrupted = _Collected.poll, []

    def interrupted_poll(collected: _Collected, end: float | None = None) -> None:
        if not interrupted:
            interrupted.append(True)
            raise interruption
        poll(collected, end)

    monkeypatch.setattr(record_module, "_POLL_S", 1.0)
    monkeypatch.setattr(_Collected, "poll", interrupted_poll)
    result = record(["sleep", "1.2"], tmp_path / "run.csv", source="host")
    assert interrupted
    assert result.returncode == (128 + signal.SIGTERM if interruption is SystemExit else 0)
    assert len(read_trace(tmp_path / "run.csv").frame) >= 3


@pytest.mark.parametrize("body", ['{"status": "ok"}', "[]", "5", "ok"])
def test_another_service_on_the_agents_port_is_no_agent(body: str) -> None:
    """Many services answer ``{"status": "ok"}`` to a health check; only an agent says how old its last reading is."""

    def answer(environ: object, start_response: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "application/json")])
        return [body.encode()]

    with make_server("127.0.0.1", 0, answer, handler_class=_Quiet) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        client = AgentClient(f"http://127.0.0.1:{server.server_port}")
        assert not client.healthy()
        with pytest.raises(AgentError):
            client.devices()
        server.shutdown()


class _Quiet(WSGIRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


def test_a_daemon_that_replays_is_not_asked_what_runs_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    time_s = np.arange(0, 60, 0.1)
    played = write_trace(
        Trace(pd.DataFrame({"time": time_s, "power": 50 + np.sin(time_s)}), gpu="Tesla T4"), tmp_path / "old.csv"
    )
    with agent_process(["--source", "replay", "--replay", str(played), "--speed", "1"]) as daemon:
        monkeypatch.setattr(record_module, "DAEMON_URL", daemon.url)
        assert daemon.healthy()
        assert record_module._daemon(None) is None
        assert record_module._daemon("host") is None
    with agent_process(["--source", "host"]) as daemon:
        monkeypatch.setattr(record_module, "DAEMON_URL", daemon.url)
        # It does not know the command's processes, which an agent of our own does.
        assert record_module._daemon(None) is None
        assert record_module._daemon("host") is None
        assert record_module._daemon("nvml") is None


def test_a_daemon_that_asks_for_a_password_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(environ: dict[str, str], start_response: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
        healthy = environ["PATH_INFO"] == "/healthz"
        start_response("200 OK" if healthy else "401 Unauthorized", [("Content-Type", "application/json")])
        return [b'{"status": "ok", "last_reading_age_s": 0.1}' if healthy else b'{"error": "no"}']

    with make_server("127.0.0.1", 0, answer, handler_class=_Quiet) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setattr(record_module, "DAEMON_URL", f"http://127.0.0.1:{server.server_port}")
        assert record_module._daemon(None) is None
        server.shutdown()


def _device(label: str, uuid: str, times: list[float], missed: int = 0, metric: str = "power") -> dict[str, Any]:
    rows = {"time": times, "metrics": {metric: [1.0] * len(times)}}
    return {"label": label, "uuid": uuid, "name": uuid, "source": "gpm", "simulated": False, "missed_ticks": missed, **rows}


class _Agent(AgentClient):
    """An agent of which every poll gets the next of some answers, and an error for None."""

    answers: ClassVar[list[list[dict[str, Any]] | None]] = []
    lag_s: ClassVar[dict[str, float]] = {}

    def _get(self, path: str, *_: object, **__: object) -> dict[str, Any]:
        if path == "/api/v1/gpus":
            devices = [{"uuid": uuid, "static": {}, "lag_s": lag, "retention_s": 600.0} for uuid, lag in self.lag_s.items()]
            return {"schema": "epochcast.gpus/v1", "gpus": devices}
        answer = self.answers.pop(0)
        if answer is None:
            raise AgentError("no agent answers")
        return {"schema": "epochcast.samples/v1", "gpus": answer}


@pytest.fixture
def collect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., _Collected]:
    """Poll once for each answer of an agent but the first, which it gives at the start."""

    def poll(*answers: list[dict[str, Any]] | None, **lag_s: float) -> _Collected:
        monkeypatch.setattr(_Agent, "answers", list(answers))
        monkeypatch.setattr(_Agent, "lag_s", lag_s)
        (tmp_path / "out").mkdir()
        collected = _Collected(_Agent("http://agent"), tmp_path / "out" / "run.csv", start=0.0, job={})
        while _Agent.answers:
            collected.poll()
        return collected

    return poll


def test_an_instance_made_anew_under_the_same_label_is_another_device(
    tmp_path: Path, collect: Callable[..., _Collected]
) -> None:
    collected = collect(
        [_device("0.1", "old", [])],
        [_device("0.1", "old", [1.0, 1.1])],
        # The API lists what is gone last.
        [_device("0.1", "new", [2.0, 2.1, 2.2]), _device("0.1", "old", [1.2])],
        old=0.0,
        new=0.0,
    )
    found = {growing.path: (trace.uuid, trace.time.tolist()) for growing in collected.traces for trace in [growing.trace()]}
    assert found == {
        tmp_path / "out" / "run.gpu0.1.recording.csv": ("old", [1.0, 1.1, 1.2]),
        tmp_path / "out" / "run.gpu0.1-new.recording.csv": ("new", [2.0, 2.1, 2.2]),
    }


def test_a_daemon_that_is_started_again_counts_missed_ticks_anew(collect: Callable[..., _Collected]) -> None:
    (growing,) = collect(
        [_device("0", "a", [], missed=100)],
        [_device("0", "a", [1.0], missed=103)],
        None,
        [_device("0", "a", [9.0], missed=2, metric="sm_active")],
        [_device("0", "a", [], missed=4, metric="sm_active")],
        a=0.0,
    ).traces
    trace = growing.trace()
    assert (trace.missed_ticks, trace.time.tolist(), trace.metric_names) == (7, [1.0, 9.0], ("power", "sm_active"))


def test_where_nothing_can_be_kept_nothing_is_said_to_be(
    tmp_path: Path, collect: Callable[..., _Collected], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [_device("0", "a", [1.0, 1.1]), _device("1", "b", [1.0])]
    collected = collect([], rows, a=0.0, b=0.0)
    shutil.rmtree(tmp_path / "out")

    def full(prefix: str) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(record_module.tempfile, "mkdtemp", full)
    result = record_module._filed(collected.traces, tmp_path / "out" / "run.csv", 5)
    assert (result.traces, result.samples, result.returncode) == ((), 0, 5)
    assert result.problem is not None
    assert result.problem.endswith("directory; the last samples, 3 of all devices together, are lost, as no disk took them")


def test_of_a_device_that_comes_later_and_is_slow_nothing_is_left_out(
    collect: Callable[..., _Collected], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 101.0)
    collected = collect([_device("0", "fast", [])], fast=0.0)
    asked = []

    def samples(_: _Agent, start: float | None = None, end: float | None = None) -> list[dict[str, Any]]:
        asked.append((start, end))
        slow = [98.9, 99.0] if len(asked) == 1 else [98.9, 99.0, 99.1, 99.9]
        return [_device("0", "fast", []), _device("1", "slow", slow)]

    monkeypatch.setattr(_Agent, "samples", samples)
    monkeypatch.setattr(_Agent, "lag_s", {"fast": 0.0, "slow": 2.0})
    collected.poll()
    collected.poll()
    assert asked == [(0.0, None), (pytest.approx(101.0 - 2.0 - record_module._SETTLE_S, abs=0.05), None)]
    assert [growing.trace().time.tolist() for growing in collected.traces] == [[98.9, 99.0, 99.1, 99.9]]


def test_a_signal_while_samples_are_taken_in_adds_none_twice(
    collect: Callable[..., _Collected], monkeypatch: pytest.MonkeyPatch
) -> None:
    collected = collect([_device("0", "a", []), _device("1", "b", [])], a=0.0, b=0.0)
    extend = GrowingTrace.extend

    def interrupted(growing: GrowingTrace, *rows: Any) -> None:
        extend(growing, *rows)
        raise KeyboardInterrupt

    monkeypatch.setattr(_Agent, "answers", [[_device("0", "a", [1.0, 1.1]), _device("1", "b", [1.0, 1.1])]])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(GrowingTrace, "extend", interrupted)
        collected.poll()
    monkeypatch.setattr(_Agent, "answers", [[_device("0", "a", [1.0, 1.1, 1.2]), _device("1", "b", [1.0, 1.1, 1.2])]])
    collected.poll()
    assert [growing.trace().time.tolist() for growing in collected.traces] == [[1.0, 1.1, 1.2]] * 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--out", "run.txt", "--", "true"], ".parquet or .csv"),
        (["--out", "{folder}", "--", "true"], "is a folder; name another file"),
        (["--out", "no/such/folder/run.csv", "--", "true"], "no folder 'no/such/folder'"),
        (["--source", "host", "--out", "x.csv", "--", "no-such-command-here"], "cannot run 'no-such-command-here'"),
        (["--source", "telepathy", "--out", "x.csv", "--", "true"], "telepathy"),
        ([], "record needs the command that trains"),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_2(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Callable[..., str]
) -> None:
    folder = tmp_path / "run.parquet"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    assert says in refusal("record", *(argument.format(folder=folder) for argument in arguments))


def test_without_a_gpu_the_nvml_source_is_refused_and_the_command_never_runs(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    try:
        with agent_process(["--source", "nvml"]):
            pytest.skip("this machine has a GPU")
    except InputError as error:
        assert "\n" not in str(error)
    with pytest.raises(InputError):
        record(["touch", str(mark)], tmp_path / "x.csv", source="nvml")
    assert not mark.exists()
