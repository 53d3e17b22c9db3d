"""The node analyzer as it is run: beside a real agent that replays a simulated trace."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.telemetry.gpu_report import Report, epoch_from_json
from epochcast.analyzer.traces.trace import Trace, write_trace
from epochcast.detector.simulator import SimulatedTrace, simulate

from ...processes import Process

Start = Callable[..., Process]
HEAVY = {
    *("pandas", "pyarrow", "sklearn", "catboost", "click", "requests", "pydantic", "fastapi", "starlette", "uvicorn"),
    *("matplotlib", "jinja2", "markupsafe", "torch", "joblib", "limits", "pebble"),
}


@pytest.fixture
def trace() -> SimulatedTrace:
    return simulate(1, epochs=12, epoch_s=8.0, validation_s=0.8)


def replay(start_process: Start, trace: SimulatedTrace, folder: Path) -> Process:
    # More metrics take longer to search, and say the same.
    frame = pd.DataFrame({"time": trace.time} | {name: trace.metrics[name] for name in ("dram_active", "sm_active", "power")})
    file = write_trace(Trace(frame, gpu=trace.gpu, uuid="GPU-r", source="replay", simulated=True), folder / "run.parquet")
    return start_process("-m", "epochcast.agent", "--replay", file, "--speed", 20)


def reports(node: Process) -> list[Report]:
    return [Report.from_json(one) for one in node.json("/api/v1/reports")["reports"]]


def test_epochs_and_profiles_of_a_replayed_trace(start_process: Start, trace: SimulatedTrace, tmp_path: Path) -> None:
    agent = replay(start_process, trace, tmp_path)
    config = tmp_path / "node.toml"
    config.write_text(f'agent = "{agent.url}"\nstate = "{tmp_path / "state.db"}"\ninterval = 0.5\n')
    node = start_process("-m", "epochcast.analyzer", "serve", "--node", "--config", config)
    # A restart in the middle: the agent's ring and the state are all there is to go on from.
    node.wait_for(lambda: any(report.epochs_seen >= 4 for report in reports(node)))
    seen = reports(node)[0].epochs_seen
    assert node.stop()[0] == 0
    node = start_process("-m", "epochcast.analyzer", "serve", "--node", "--config", config, "--name", "gpu-node-7")
    node.wait_for(lambda: any(report.last_sample == trace.time[-1] for report in reports(node)))
    (report,) = reports(node)
    assert report.device.node == "gpu-node-7"
    period = float(np.median(np.diff(trace.epoch_starts)))
    assert (report.verdict, report.device.name, report.device.simulated) == ("epochs", "Tesla T4", True)
    assert report.period_s == pytest.approx(period, rel=0.02)
    assert report.profile is not None
    assert report.profile.epoch_s == pytest.approx(period, rel=0.02)
    assert report.epochs_seen == 12 >= seen
    node.wait_for(lambda: len(node.json(f"/api/v1/epochs?gpu={report.device.uuid}")["epochs"]) == 12)
    told = node.json(f"/api/v1/epochs?gpu={report.device.uuid}")
    epochs = [epoch_from_json(one) for one in told["epochs"]]
    assert told["schema"] == "epochcast.epochs/v1"
    assert [epoch.start for epoch in epochs] == pytest.approx(trace.epoch_starts.tolist(), abs=0.3)
    assert all(epoch.profile is not None and epoch.profile.unit == "epoch" for epoch in epochs)
    since = node.json(f"/api/v1/epochs?gpu={report.device.uuid}&since={epochs[8].end}&limit=2")["epochs"]
    assert [one["start"] for one in since] == [epochs[10].start, epochs[11].start]
    page, device = node.text("/metrics"), report.device
    labels = f'gpu="0",name="Tesla T4",node="{device.node}",uuid="{device.uuid}"'
    assert f"epochcast_gpu_epochs_total{{{labels}}} 12.0" in page
    assert "epochcast_analyzer_store_errors_total 0.0" in page
    assert node.json("/healthz")["status"] == "ok"
    status, errors = node.stop()
    assert status == 0
    assert "Traceback" not in errors


def test_without_an_agent_it_waits_and_says_so(start_process: Start, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    settings = {"agent": "http://127.0.0.1:9", "token_file": str(token), "state": str(tmp_path / "s.db")}
    (tmp_path / "node.toml").write_text("".join(f'{name} = "{value}"\n' for name, value in settings.items()))
    node = start_process("-m", "epochcast.analyzer", "serve", "--node", "--config", tmp_path / "node.toml")
    node.wait_for(lambda: node.json("/healthz")["agents"][0]["error"] != "")
    assert node.json("/healthz")["agents"][0]["up"] is False
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic secret"}):
        status, error = node.refused("/api/v1/reports", **headers)
        assert status == 401
        assert "token" in error["error"]
    status, error = node.refused("/api/v1/epochs", Authorization="Bearer secret")
    assert (status, error["error"]) == (400, "gpu is missing; name one by its UUID: none is known yet")
    assert node.refused("/nothing")[0] == 401
    assert node.refused("/nothing", Authorization="Bearer secret")[0] == 404
    assert node.stop()[0] == 0


def test_beyond_this_machine_it_warns_of_whoever_reaches_it(start_process: Start, tmp_path: Path) -> None:
    settings = ("--agent", "http://127.0.0.1:9", "--state", tmp_path / "s.db")
    warned = {
        host: "anybody who reaches"
        in start_process("-m", "epochcast.analyzer", "serve", "--node", "--host", host, *settings).stop()[1]
        for host in ("127.0.0.2", "0.0.0.0")
    }
    assert warned == {"127.0.0.2": False, "0.0.0.0": True}


def test_nothing_heavy_is_loaded(tmp_path: Path) -> None:
    """All that the node's process runs, with what it imports only when it is used."""
    settings = {"agent": "http://127.0.0.1:9", "port": 0, "state": tmp_path / "s.db"}
    code = (
        "import sys, threading\n"
        "from pathlib import Path, PosixPath\n"
        "from epochcast.analyzer.node import cli, process\n"
        "from epochcast.analyzer.node.config import NodeConfig\n"
        "from epochcast.analyzer.telemetry.settings import opened\n"
        "from epochcast.common.settings_file import load\n"
        "stop = threading.Event()\n"
        "threading.Timer(1.0, stop.set).start()\n"
        f"process.run(config := load(NodeConfig, None, {settings!r}), opened([config.source]), stop)\n"
        f"heavy = {HEAVY!r} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_command_needs_no_more_than_the_nodes_packages(tmp_path: Path) -> None:
    """``epochcast serve --node`` where the analyzer's packages are not installed."""
    code = (
        "import sys\n"
        f"for name in {HEAVY!r}: sys.modules[name] = None\n"
        "sys.argv = ['epochcast', 'serve', '--node', '--help']\n"
        "from epochcast.analyzer.entry import main\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "examples:" in done.stdout


def test_the_service_where_only_the_nodes_packages_are_installed_names_what_to_do(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        f"for name in {HEAVY!r}: sys.modules[name] = None\n"
        "sys.argv = ['epochcast', 'serve']\n"
        "from epochcast.analyzer.entry import main\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("in place of the dot, or add --node beside an agent\n")


BAD = [
    (["--port", "99999"], "port is 99999"),
    (["--agent", "nowhere"], "whole address"),
    (["--config", "absent.toml"], "absent.toml"),
    (["--state", "/dev/null/state.db"], "/dev/null/state.db"),
    (["--no-such-flag"], "--no-such-flag"),
    (["--config", "gpus.toml"], "GPU file 'none.toml'"),
]


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, str]]:
    """Exit status and standard error of each bad usage, all asked of one process: to start one takes longer than to ask."""
    folder = tmp_path_factory.mktemp("bad-usage")
    (folder / "gpus.toml").write_text('gpus = "none.toml"\nport = 0\n')
    code = (
        "import sys\n"
        "from epochcast.analyzer.entry import main\n"
        f"for arguments in {[arguments for arguments, _ in BAD]!r}:\n"
        "    sys.argv = ['epochcast', 'serve', '--node', '--state', 's.db', *arguments]\n"
        "    try:\n"
        "        status = main()\n"
        "    except SystemExit as ended:\n"
        "        status = ended.code\n"
        "    print(f'<{status}>', file=sys.stderr, end='', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True, timeout=120)
    return [(int(status), said) for said, status in re.findall(r"(.*?)<(\d+)>", done.stderr, re.DOTALL)]


@pytest.mark.parametrize("case", range(len(BAD)), ids=[said for _, said in BAD])
def test_bad_usage_is_one_sentence(refused: list[tuple[int, str]], case: int) -> None:
    assert len(refused) == len(BAD)
    status, told = refused[case]
    assert status == 2
    assert told.count("\n") == 1 and told.endswith("\n")
    assert BAD[case][1] in told
