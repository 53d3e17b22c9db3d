"""The node analyzer as it is run; what it finds next to an agent: tests/owner/test_dashboards.py."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ...processes import Process, wait_until

Start = Callable[..., Process]
HEAVY = {
    *("pandas", "pyarrow", "sklearn", "catboost", "click", "requests", "fastapi", "starlette", "uvicorn"),
    *("matplotlib", "jinja2", "markupsafe", "torch", "joblib", "pebble"),
}


def test_without_an_agent_it_waits_and_says_so(start_process: Start, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-that-nobody-guesses\n")
    settings = {"agent": "http://127.0.0.1:9", "token_file": str(token), "state": str(tmp_path / "s.db")}
    (tmp_path / "node.toml").write_text("".join(f'{name} = "{value}"\n' for name, value in settings.items()))
    node = start_process("-m", "epochcast.analyzer", "serve", "--node", "--config", tmp_path / "node.toml")
    wait_until(lambda: node.json("/healthz")["agents"][0]["error"] != "")
    assert node.json("/healthz")["agents"][0]["up"] is False
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic secret"}):
        status, error = node.refused("/api/v1/reports", **headers)
        assert status == 401
        assert "token" in error["error"]
    status, error = node.refused("/api/v1/epochs", Authorization="Bearer a-token-that-nobody-guesses")
    assert (status, error["error"]) == (400, "gpu is missing; name one by its UUID: none is known yet")
    assert node.refused("/nothing")[0] == 401
    assert node.refused("/nothing", Authorization="Bearer a-token-that-nobody-guesses")[0] == 404
    assert node.stop()[0] == 0


def test_beyond_this_machine_it_warns_of_whoever_reaches_it(start_process: Start, tmp_path: Path) -> None:
    settings = ("--agent", "http://127.0.0.1:9", "--state", tmp_path / "s.db")
    warned = {
        host: "anyone who can reach"
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
    assert done.stderr.endswith("in place of the dot, or add --node next to an agent\n")
