"""What an operator installs is accepted by the tools that will read it, and does what it says."""

import ctypes
import dataclasses
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from epochcast.agent.config import Config
from epochcast.analyzer.node.config import NodeConfig
from epochcast.common.settings_file import load

UNITS = ("epochcast-agent.service", "epochcast-analyzer.service", "epochcast-node.service", "epochcast-prices.service")
# Most exposure that the units may have, in tenths of the score of `systemd-analyze security`.
EXPOSURE = 15


def tool(name: str) -> str:
    """Return the path of a program; skip the test where it is not installed."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_accepts_the_units(root: Path, tmp_path: Path, unit: str) -> None:
    # The command need not be installed where the unit says for the unit to be right.
    text, commands = re.subn(
        r"^ExecStart=\S+", "ExecStart=/bin/true", (root / "systemd" / unit).read_text(), flags=re.MULTILINE
    )
    assert commands >= 1
    (tmp_path / unit).write_text(text)
    done = run(tool("systemd-analyze"), "verify", tmp_path / unit)
    assert done.returncode == 0, done.stderr
    assert unit not in done.stderr


@pytest.mark.parametrize("unit", UNITS)
def test_the_units_are_closed_to_what_they_do_not_need(root: Path, tmp_path: Path, unit: str) -> None:
    analyze = (tool("systemd-analyze"), "security", "--offline=true", f"--threshold={EXPOSURE}")
    done = run(*analyze, root / "systemd" / unit)
    assert done.returncode == 0, done.stdout.splitlines()[-1]
    weakened = (root / "systemd" / unit).read_text().replace("SystemCallFilter=", "#").replace("CapabilityBoundingSet=", "#")
    (tmp_path / unit).write_text(weakened)
    assert run(*analyze, tmp_path / unit).returncode != 0


def test_the_timer_of_prices_is_off_until_it_is_enabled(root: Path, tmp_path: Path) -> None:
    """Nothing starts the service but its timer, which nothing starts but `systemctl enable`."""
    for name in ("epochcast-prices.service", "epochcast-prices.timer"):
        text = (root / "systemd" / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE))
    done = run(tool("systemd-analyze"), "verify", tmp_path / "epochcast-prices.timer")
    assert done.returncode == 0 and "epochcast" not in done.stderr, done.stderr
    sections = {name: (root / "systemd" / name).read_text(encoding="utf-8") for name in UNITS}
    assert "[Install]" not in sections["epochcast-prices.service"]
    assert not [name for name, text in sections.items() if re.search(r"^(Wants|Requires)=.*prices", text, flags=re.MULTILINE)]


def test_the_drop_in_for_real_time_opens_no_more_than_its_page_says(root: Path, tmp_path: Path) -> None:
    unit, drop_in = ((root / "systemd" / name).read_text() for name in ("epochcast-agent.service", "real-time.conf"))
    (tmp_path / UNITS[0]).write_text(unit.replace("[Install]", f"{drop_in}\n[Install]"))
    done = run(tool("systemd-analyze"), "security", "--offline=true", "--threshold=17", tmp_path / UNITS[0])
    assert done.returncode == 0, done.stdout.splitlines()[-1]
    assert "Unknown" not in run("systemd-analyze", "verify", tmp_path / UNITS[0]).stderr


def test_the_example_settings_name_every_setting_with_its_default(root: Path) -> None:
    text = (root / "systemd" / "agent.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text) == {}
    uncommented = re.sub(r"^#(?=[a-z\[])", "", text, flags=re.MULTILINE)
    _names_all(Config, tomllib.loads(uncommented))


def _names_all(kind: type[Any], table: dict[str, Any]) -> None:
    """Check that a TOML table has each setting of a dataclass; what has a default of its own is shown with it."""
    assert set(table) == {field.name for field in dataclasses.fields(kind)}
    defaults = kind()
    for name, hint in get_type_hints(kind).items():
        default = getattr(defaults, name)
        if dataclasses.is_dataclass(hint):
            _names_all(hint, table[name])
        elif default not in (None, "", {}, ()):
            assert table[name] == default, name


def test_the_agent_takes_the_example_settings_as_they_stand(root: Path, tmp_path: Path) -> None:
    text = re.sub(r"^#(?=[a-z\[])", "", (root / "systemd" / "agent.toml").read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = re.sub(r"^bindings = .*$", f'bindings = "{tmp_path}"', text, flags=re.MULTILINE)  # DCGM is not everywhere
    # Two ways to sign in to the store exclude each other.
    for number, other in enumerate(("token_file", "user|password_file")):
        path = tmp_path / f"{number}.toml"
        path.write_text(re.sub(rf"^({other}) = .*$", "", text, flags=re.MULTILINE), encoding="utf-8")
        assert load(Config, path, {}).push.url


def test_the_example_settings_of_a_node_name_every_setting_with_its_default(root: Path, tmp_path: Path) -> None:
    text = (root / "systemd" / "node.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text) == {}
    (tmp_path / "node.toml").write_text(re.sub(r"^#(?=[a-z])", "", text, flags=re.MULTILINE), encoding="utf-8")
    shown, defaults = load(NodeConfig, tmp_path / "node.toml", {}), load(NodeConfig, root / "systemd" / "node.toml", {})
    table = tomllib.loads((tmp_path / "node.toml").read_text(encoding="utf-8"))
    assert set(table) == {field.name for field in dataclasses.fields(defaults)}
    for name in table:
        if getattr(defaults, name) not in (None, "", ()):
            assert getattr(shown, name) == getattr(defaults, name), name


# What MemoryDenyWriteExecute= asks of the kernel. systemd itself may use a seccomp filter to the same end.
WITHOUT_WRITABLE_CODE = """
import ctypes, mmap, sys
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0):
    sys.exit("no PR_SET_MDWE")
try:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    sys.exit("the protection does not protect")
except PermissionError:
    pass
"""


def test_a_node_analyzer_runs_where_no_memory_may_become_code(start_process: Any, tmp_path: Path) -> None:
    if ctypes.CDLL(None).prctl(66, 0, 0, 0, 0) < 0:  # PR_GET_MDWE
        pytest.skip("this kernel is older than PR_SET_MDWE (6.3)")
    code = WITHOUT_WRITABLE_CODE + (
        "import numpy as np\n"
        "from epochcast.detector import detect\n"
        "time = np.arange(0, 400, 0.1)\n"
        "busy = np.where(time % 20 < 17, 0.9, 0.1) + 0.01 * np.sin(time)\n"
        "assert detect(time, {'sm_active': busy}).verdict == 'epochs'\n"
        "from epochcast.analyzer.entry import main\n"
        "sys.argv[0] = 'epochcast'\n"
        "sys.exit(main())\n"
    )
    state = ("--state", tmp_path / "state.db")
    node = start_process("-c", code, "serve", "--node", *state, "--agent", "http://127.0.0.1:9")
    assert "epochcast_analyzer_source_up" in node.text("/metrics")
    status, said = node.stop()
    assert status == 0, said


def test_the_agent_runs_where_no_memory_may_become_code(start_process: Any) -> None:
    if ctypes.CDLL(None).prctl(66, 0, 0, 0, 0) < 0:  # PR_GET_MDWE
        pytest.skip("this kernel is older than PR_SET_MDWE (6.3)")
    code = WITHOUT_WRITABLE_CODE + (
        "kept = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x: x + 1)\n"  # DCGM's bindings hand such to the library
        "assert kept(1) == 2\n"
        "from epochcast.agent.cli import main\n"
        "sys.exit(main())\n"
    )
    agent = start_process("-c", code, "--source", "host")
    assert "epochcast_agent_effective_hertz" in agent.text("/metrics")
    status, said = agent.stop()
    assert status == 0, said
