"""The node analyzer as it is run; what it finds next to an agent: tests/owner/test_dashboards.py."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ...processes import Process

Start = Callable[..., Process]
HEAVY = {
    *("pandas", "pyarrow", "sklearn", "catboost", "click", "requests", "fastapi", "starlette", "uvicorn"),
    *("matplotlib", "jinja2", "markupsafe", "torch", "joblib", "limits", "pebble"),
}


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


BAD = [
    (["--port", "99999"], "port is 99999"),
    (["--agent", "nowhere"], "full address"),
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
