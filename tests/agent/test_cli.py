"""The command as a user runs it: a process, its exit status, its stderr."""

import json
import math
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epochcast.agent.cli import main
from epochcast.common import logs


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "epochcast.agent", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The one sentence with which an agent refuses before it has started, asked without a process."""
    for owner, name in ((logs, "setup"), (signal, "signal")):  # of the process of all tests
        monkeypatch.setattr(owner, name, lambda *_: None)

    def sentence(*arguments: object) -> str:
        try:
            status: object = main([str(argument) for argument in arguments])
        except SystemExit as exit:
            status = exit.code
        assert status == 2
        out, errors = capsys.readouterr()
        assert out == ""
        (line,) = errors.splitlines()
        return line

    return sentence


def test_a_live_agent_answers_and_stops_clean(start_agent: Callable[..., Any], until: Any) -> None:
    agent = start_agent("--source", "host")
    until(lambda: len(agent.json("/api/v1/samples")["gpus"][0]["time"]) >= 5)
    (gpu,) = agent.json("/api/v1/samples")["gpus"]
    assert gpu["source"] == "host"
    assert len(gpu["time"]) >= 5
    # Every tick is there once or counted: its row was read after it was due and before the next one was.
    ticks = [math.floor(moment * 10) for moment in gpu["time"]]
    assert len(set(ticks)) == len(ticks) >= ticks[-1] - ticks[0] + 1 - gpu["missed_ticks"]
    assert agent.json("/healthz")["status"] == "ok"
    status, errors = agent.stop()
    assert status == 0
    assert "Traceback" not in errors


def test_interrupting_it_while_a_long_trace_is_read_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("epochcast.agent.cli.Daemon", interrupted)
    assert main(["--source", "host"]) == 130


def test_an_agent_that_somebody_started_ends_with_him() -> None:
    command = [sys.executable, "-m", "epochcast.agent", "--source", "host", "--port", "0", "--while-stdin"]
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert agent.stdin and agent.stderr
    while "listening" not in (line := agent.stderr.readline()):
        assert line, "it ended by itself"
    with pytest.raises(subprocess.TimeoutExpired):
        agent.wait(0.3)
    agent.stdin.close()
    assert agent.wait(60) == 0


@pytest.mark.parametrize("reading", ["threading.Event().wait()", "return read(self, tick)"])
def test_a_driver_that_hangs_does_not_keep_it_from_stopping(
    start_agent: Callable[..., Any], tmp_path: Path, until: Any, reading: str
) -> None:
    # The real daemon over the host source, whose close hangs as calls into a stuck driver do, and whose read may hang too.
    (tmp_path / "sitecustomize.py").write_text(
        "import threading\n"
        "from epochcast.agent import node\n"
        "from epochcast.agent.sources.host import HostSource\n"
        "node.LONGEST_STOP_S = 0.2\n"
        "read, ticks = HostSource.read, []\n"
        "def hanging(self, tick):\n"
        "    ticks.append(tick)\n"
        "    if len(ticks) < 3:\n"
        "        return read(self, tick)\n"
        f"    open({str(tmp_path / 'hangs')!r}, 'w').close()\n"
        f"    {reading}\n"
        "HostSource.read = hanging\n"
        "HostSource.close = lambda self: threading.Event().wait()\n"
    )
    agent = start_agent("--source", "host", env={"PYTHONPATH": str(tmp_path)})
    until((tmp_path / "hangs").exists)
    status, _ = agent.stop()
    assert status == 0


def test_a_replay_is_served_to_its_end_and_after(start_agent: Callable[..., Any], tmp_path: Path, until: Any) -> None:
    header = json.dumps({"schema": "epochcast.trace/v1", "gpu": "Tesla T4", "simulated": True})
    lines = [f"# {header}", "time,power,loss", *(f"{100 + tick / 10},{tick},0.5" for tick in range(600))]
    (tmp_path / "trace.csv").write_text("\n".join(lines))
    (tmp_path / "agent.toml").write_text("retention = 1\n")
    agent = start_agent("--config", tmp_path / "agent.toml", "--replay", tmp_path / "trace.csv", "--speed", 200)
    until(lambda: agent.json("/healthz")["status"] == "replay finished")
    (gpu,) = agent.json("/api/v1/samples")["gpus"]
    assert gpu["time"] == [100 + tick / 10 for tick in range(600)]  # complete, regardless of the retention
    assert (gpu["name"], gpu["source"], gpu["simulated"], gpu["missed_ticks"]) == ("Tesla T4", "replay", True, 0)
    page = agent.text("/metrics")
    assert 'name="Tesla T4",pci_bus_id="",serial="",simulated="true",source="replay",uuid="replay-trace"} 1.0' in page
    agent.process.send_signal(signal.SIGINT)
    assert agent.process.wait(60) == 0


def test_auto_falls_back_to_the_host_and_says_why(start_agent: Callable[..., Any]) -> None:
    agent = start_agent()
    source = agent.json("/healthz")["source"]
    assert "epochcast_gpu_up{" not in agent.text("/metrics")  # CPUs are no GPU
    assert agent.json("/readyz")["expected"] is None
    _, errors = agent.stop()
    if source == "nvml":
        pytest.skip("this machine has a GPU")
    assert "reading the host's own CPUs: source 'nvml' cannot use the NVIDIA driver" in errors


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--source", "host", "--port", "0", "--host", "no.such.host.invalid"], "cannot be used for listening"),
        (["--source", "host", "--port", "0", "--port-file", "no/such/folder/port"], "cannot write 'no/such/folder/port'"),
    ],
)
def test_a_process_refuses_in_one_sentence_with_exit_2(arguments: list[str], sentence: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = (line for line in done.stderr.splitlines() if " INFO " not in line)
    assert sentence in line


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--replay", "no_such.csv"], "cannot read the trace no_such.csv: No such file"),
        (["--source", "replay"], "name one with --replay FILE"),
        (["--source", "host", "--replay", "x.csv"], "exclude each other"),
        (["--source", "rocm"], "invalid choice: 'rocm'"),
        (["--replay", "x.csv", "--speed", "0"], "speed is 0.0"),
        (["--replay", "x.csv", "--speed", "nan"], "speed is nan"),
        (["--speed", "2"], "speed applies only to a replay"),
        (["--port", "http"], "invalid int value: 'http'"),
        (["--port", "99999"], "port is 99999"),
        (["--config", "no_such.toml"], "cannot read the configuration no_such.toml: No such file"),
        (["--frequency"], "unrecognized arguments"),
        (["--port", "99999", "check"], "port is 99999"),
        (["--port", "1", "install"], "install takes no --port"),
        (["install", "prices"], "invalid choice: 'prices'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(refused: Any, arguments: list[str], sentence: str) -> None:
    assert sentence in refused(*arguments)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('source = "rocm"\n', "unknown source 'rocm'; choose one of auto, gpm, dcgm, dcgm-exporter, nvml, host, replay"),
        ("tick_budget = 1\n", "tick_budget is 1 s per GPU"),
        ("processes = 0.1\n", "processes is 0.1 s"),
        ('log_format = "xml"\n', "log_format is 'xml'"),
        ('exporter = "localhost"\n', "exporter is 'localhost'"),
        ('host = ""\n', "host is empty; give an address"),
        ('hosts = "node-7"\n', "sets hosts to 'node-7'; it must be a list of texts"),
        ('hosts = ["https://node-7"]\n', "hosts has 'https://node-7'; give names alone and in lower case"),
        ('[tiers]\nsm_actve = "fast"\n', "unknown metric 'sm_actve'"),
        ('[tiers]\nsm_active = "often"\n', "sets sm_active to 'often'; choose one of fast, slow, rare, off"),
        ('[web]\ncertificate = "a.pem"\n', "web.certificate and web.key belong together"),
        ('[web]\nclient_ca = "a.pem"\n', "web.client_ca needs TLS"),
        ("[web]\nconnections = 0\n", "web.connections is 0; give 1 to 1000"),
        ('[push]\nurl = "prometheus"\n', "push.url is 'prometheus'"),
        ('[push]\nurl = "http://p/w"\nuser = "u"\n', "push.user and push.password_file belong together"),
        ('[push]\nuser = "u"\npassword_file = "p"\ntoken_file = "t"\n', "push.user and push.token_file exclude each other"),
        ("[push]\ninterval = 0.4\n", "push.interval is 0.4 s; give 0.5 to 60"),
        ("[push]\nqueue = 999\n", "push.queue is 999 samples; give 1000 to"),
        ('[push.labels]\n"a-b" = "c"\n', "push.labels has a-b = 'c'"),
        ("window = 0.9\n", "window is 0.9 s; give 1 to 3600"),
        ("retention = 0\n", "retention is 0 s"),
        ("gpus = -1\n", "gpus is -1; give the number"),
        ("pid = -1\n", "pid is -1; give the number"),
        ('families = {power = ["mean"]}\n', "families sets power to ['mean']; give a list"),
        ("retention = 86401\n", "retention is 86401 s; give 1 to 86400"),
        ('pid = 7\ncgroup = "/sys/fs/cgroup/a"\n', "pid (7) and cgroup (/sys/fs/cgroup/a) exclude each other"),
        (f'replay = "x.csv"\nspeed = 1{"0" * 400}\n', "give a number greater than 0"),
    ],
)
def test_a_bad_configuration_is_one_sentence_and_exit_2(refused: Any, tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "agent.toml").write_text(text)
    assert sentence in refused("--config", tmp_path / "agent.toml")
    assert sentence in refused("--config", tmp_path / "agent.toml", "check", "--settings")


def test_a_check_of_the_settings_opens_no_source(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text('source = "nvml"\n')
    done = run("--config", tmp_path / "agent.toml", "check", "--settings")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_systemd_tries_again_what_right_settings_do_not_reach_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "@nobody")
    done = run("--source", "host", "--host", "192.0.2.1")
    assert (done.returncode, "Cannot assign requested address" in done.stderr) == (1, True)
