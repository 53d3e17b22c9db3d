"""The three units under a real systemd as PID 1: installed, started, reloaded, upgraded and stopped, on the stub driver.

`machine.sh` makes a machine of namespaces, in which this one's file system lies below an overlay. That takes root, Debian's or
Ubuntu's Python in the tests' version (the service sees no home) and a control group (v2) that may be written.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ..processes import wait_until

SYSTEMD, PYTHON = Path("/lib/systemd/systemd"), Path("/usr/bin/python3")
BIN = Path("/opt/epochcast/bin")
AGENT, NODE, ANALYZER = "epochcast-agent", "epochcast-node", "epochcast-analyzer"
PORTS = {AGENT: 9911, NODE: 9912, ANALYZER: 9913}
FOLDERS = ("agent", "analyzer", "common", "dashboards", "detector", "regressor", "systemd", "src")
FILES = ("README.md", "LICENSE", "MANIFEST.in")
START_S = 60.0
# Joins a unit's control group, whose filters then hold for it too; prints the errors' numbers.
PROBE = """
import os, socket, sys
open(f"/sys/fs/cgroup/system.slice/{sys.argv[1]}.service/cgroup.procs", "w").write(str(os.getpid()))
def error(do, *arguments):
    try:
        do(*arguments)
    except OSError as failed:
        return failed.errno or "timeout"
def connect(host):
    socket.create_connection((host, 1), timeout=0.5)
print(*(error(os.open, f"/dev/{name}", os.O_RDWR) for name in ("nvidia0", "other")))
print(*(error(connect, host) for host in ("127.0.0.1", "10.9.8.7", "203.0.113.1")))
"""
FORBIDDEN, NO_DRIVER, REFUSED = 1, 6, 111


class Machine:
    """A running machine; ``init`` is its PID 1 as seen from here."""

    def __init__(self, init: int) -> None:
        self.init = init

    def __call__(self, *command: object, check: bool = True) -> subprocess.CompletedProcess[str]:
        enter = ["nsenter", "--target", str(self.init), "--all", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
        done = subprocess.run([*enter, *map(str, command)], capture_output=True, text=True, check=False, timeout=120)
        assert not check or done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done

    def file(self, path: str) -> Path:
        """A file of the machine, from here."""
        return Path(f"/proc/{self.init}/root") / path.removeprefix("/")

    def get(self, unit: str, path: str, token: str = "") -> str:
        """What a service answers; the empty text while it does not, or refuses."""
        url, headers = f"http://127.0.0.1:{PORTS[unit]}{path}", {"Authorization": f"Bearer {token}"} if token else {}
        read = f"from urllib.request import *; print(urlopen(Request({url!r}, None, {headers!r}), timeout=10).read().decode())"
        return self(PYTHON, "-c", read, check=False).stdout

    def show(self, unit: str, name: str) -> str:
        return self("systemctl", "show", "--value", "--property", name, unit).stdout.strip()

    def journal(self, *options: object) -> list[str]:
        """What our units wrote, and systemd about them."""
        units = [word for unit in PORTS for word in ("--unit", unit)]
        lines = self("journalctl", "--output=json", *units, *options).stdout.splitlines()
        return [str(json.loads(line)["MESSAGE"]) for line in lines]


def _control_group() -> Path:
    """Make a control group for the machine next to this process's."""
    mounted = re.findall(r"^\S+ (\S+) cgroup2 ", Path("/proc/mounts").read_text(), flags=re.MULTILINE)
    own = re.findall(r"^0::(/.*)$", Path("/proc/self/cgroup").read_text(), flags=re.MULTILINE)
    if not mounted or not own:
        pytest.skip("no control groups of version 2 here")
    group = Path(f"{mounted[0]}{own[0]}") / f"epochcast-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"the control group {group} cannot be made: {error.strerror}")
    return group


def _wheel(root: Path, folder: Path, suffix: str) -> Path:
    """Build this tree, its version followed by ``suffix``."""
    tree = folder / f"tree{suffix}"
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(root / name, tree / name, symlinks=True, ignore=ignored)
    for name in FILES:
        shutil.copy(root / name, tree)
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    (tree / "pyproject.toml").write_text(re.sub(r'(?m)^(version = ".*)"', rf'\1{suffix}"', project), encoding="utf-8")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check", "--outdir", folder, tree]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob(f"epochcast-*{suffix}-py3*.whl")
    return wheel


@pytest.fixture(scope="module")
def booted(root: Path, tmp_path_factory: pytest.TempPathFactory, nvml_library: Path) -> Iterator[Machine]:
    """The machine with the driver's stub, and wheels of this tree in /opt: ``old`` and ``new``."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a machine of namespaces")
    for needed in (SYSTEMD, PYTHON):
        if not needed.exists():
            pytest.skip(f"no {needed} here (Debian: apt install systemd python3-venv)")
    version = "import sys; print(sys.version_info[:2])"
    if subprocess.check_output([PYTHON, "-c", version], text=True).strip() != str(sys.version_info[:2]):
        pytest.skip(f"{PYTHON} is of another version than the tests' Python")
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("machine")
    files = folder / "files"
    for wheel, name in ((_wheel(root, folder, ""), "old"), (_wheel(root, folder, ".post1"), "new")):
        (files / "opt" / name).mkdir(parents=True)
        shutil.copy(wheel, files / "opt" / name)
    (files / "usr/local/lib").mkdir(parents=True)
    shutil.copy(nvml_library, files / "usr/local/lib")
    group = _control_group()
    spaces = ("--mount", "--pid", "--cgroup", "--uts", "--ipc", "--net", "--propagation", "private", "--fork", "--kill-child")
    machine = [Path(__file__).with_name("machine.sh"), folder, sysconfig.get_path("purelib")]
    enter = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", "unshare", *spaces, *machine]
    with (folder / "boot.log").open("w") as log:
        process = subprocess.Popen(enter, stdout=log, stderr=log)
    try:
        yield _up(process, folder / "boot.log")
    finally:
        process.kill()
        process.wait()
        wait_until(lambda: "populated 0" in (group / "cgroup.events").read_text())
        for each, _, _ in os.walk(group, topdown=False):
            Path(each).rmdir()


def _up(process: "subprocess.Popen[bytes]", log: Path) -> Machine:
    """The machine once systemd has started everything; skips where it does not come so far."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        if init := children.read_text().split():
            machine = Machine(int(init[0]))
            if machine("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded"):
                return machine
        time.sleep(0.2)
    pytest.skip(f"systemd does not run in namespaces here: {log.read_text()[-500:]}")


@pytest.fixture(scope="module")
def machine(booted: Machine) -> Machine:
    """The machine with the three units installed as docs/agent.md and the units themselves say, started and answering."""
    booted("ldconfig")
    booted(PYTHON, "-m", "venv", "--without-pip", BIN.parent)
    (site,) = booted.file("/opt/epochcast/lib").glob("python3*/site-packages")
    (site / "packages.pth").write_text("/opt/packages\n")
    _pip(booted, "old")
    booted.file("/root/analyzer.toml").write_text('[[nodes]]\nurl = "http://127.0.0.1:9912"\n')
    booted(BIN / AGENT, "install")
    booted(BIN / AGENT, "install", "node")
    booted(BIN / AGENT, "install", "analyzer", "--config", "/root/analyzer.toml")
    wait_until(lambda: '"ready"' in booted.get(AGENT, "/readyz"))
    return booted


def _pip(machine: Machine, wheel: str) -> None:
    (path,) = machine.file(f"/opt/{wheel}").glob("*.whl")
    pip = (BIN / "python", "-m", "pip", "install", "--no-index", "--no-deps", "--upgrade")
    machine(*pip, f"/opt/{wheel}/{path.name}")


@contextmanager
def _drop_in(machine: Machine, unit: str, text: str) -> Iterator[None]:
    """Run a unit with more in its section [Service], then as before."""
    folder = machine.file(f"/etc/systemd/system/{unit}.service.d")
    folder.mkdir()
    (folder / "test.conf").write_text(f"[Service]\n{text}\n")
    try:
        machine("systemctl", "daemon-reload")
        machine("systemctl", "restart", unit)
        yield
    finally:
        shutil.rmtree(folder)
        machine("systemctl", "daemon-reload")
        machine("systemctl", "restart", unit)


def _gpus(machine: Machine) -> list[Any]:
    """GPUs that the service knows, from the node, from the agent, from the stub."""
    answer = machine.get(ANALYZER, "/api/v1/gpus")
    return json.loads(answer)["gpus"] if answer else []


def test_all_three_start_without_a_warning_and_read_each_other(machine: Machine) -> None:
    wait_until(lambda: len(_gpus(machine)) == 2)
    assert {gpu["source"] for gpu in _gpus(machine)} == {"gpm", "nvml"}
    assert machine("systemctl", "is-enabled", *PORTS).stdout.split() == ["enabled"] * 3
    assert not machine.journal("--priority", "warning")
    for unit in PORTS:
        status = machine.file(f"/proc/{machine.show(unit, 'MainPID')}/status").read_text()
        assert re.search(r"^Uid:\s+0", status, flags=re.MULTILINE) is None
        assert re.search(r"^CapEff:\s+0+$", status, flags=re.MULTILINE)


@pytest.mark.parametrize("unit", PORTS)
def test_devices_and_addresses_are_what_the_unit_says(machine: Machine, unit: str) -> None:
    devices, addresses = machine(PYTHON, "-c", PROBE, unit).stdout.splitlines()
    assert devices == f"{NO_DRIVER if unit == AGENT else FORBIDDEN} {FORBIDDEN}"
    assert addresses == f"{REFUSED} {REFUSED} timeout"


def test_a_reload_goes_on_sampling_with_the_new_settings(machine: Machine) -> None:
    settings = machine.file("/etc/epochcast/agent.toml")
    before, process = settings.read_text(), machine.show(AGENT, "MainPID")
    try:
        settings.write_text("window = 2.0\n")
        machine("systemctl", "reload", AGENT)
        wait_until(lambda: any("the settings were reloaded" in message for message in machine.journal()))
        settings.write_text("windoww = 2.0\n")
        failed = machine("systemctl", "reload", AGENT, check=False)
        assert failed.returncode and "epochcast-agent.service" in failed.stderr
        wait_until(lambda: any("did you mean 'window'?" in message for message in machine.journal("--priority", "err")))
        assert machine.show(AGENT, "MainPID") == process
        assert '"ok"' in machine.get(AGENT, "/healthz")
        assert "\nepochcast_agent_config_last_reload_successful 0.0\n" in machine.get(AGENT, "/metrics")
    finally:
        settings.write_text(before)


@pytest.mark.parametrize("unit", PORTS)
def test_wrong_settings_end_as_failed_and_say_why(machine: Machine, unit: str) -> None:
    settings = machine.file(f"/etc/epochcast/{unit.removeprefix('epochcast-')}.toml")
    before = settings.read_text()
    try:
        settings.write_text("prot = 1\n")
        assert machine("systemctl", "restart", unit, check=False).returncode
        assert (machine.show(unit, "ActiveState"), machine.show(unit, "ExecMainStatus")) == ("failed", "2")
        assert any("did you mean 'port'?" in message for message in machine.journal())
    finally:
        settings.write_text(before)
        machine("systemctl", "restart", unit)


def test_a_token_that_only_root_may_read_comes_in_as_a_credential(machine: Machine) -> None:
    token, settings = machine.file("/etc/epochcast/token"), machine.file("/etc/epochcast/node.toml")
    token.touch(mode=0o600)
    token.write_text("a-token-of-the-test\n")
    before = settings.read_text()
    settings.write_text(f'token_file = "/run/credentials/{NODE}.service/token"\n')
    try:
        with _drop_in(machine, NODE, "LoadCredential=token:/etc/epochcast/token"):
            assert machine.get(NODE, "/healthz")
            assert not machine.get(NODE, "/api/v1/reports")
            assert machine.get(NODE, "/api/v1/reports", token="a-token-of-the-test")
            settings.write_text(before)
    finally:
        settings.write_text(before)
    assert machine.get(NODE, "/api/v1/reports")


def test_the_watchdog_replaces_an_agent_that_hangs(machine: Machine) -> None:
    with _drop_in(machine, AGENT, "WatchdogSec=2s\nRestartSec=1s\nTimeoutAbortSec=1s"):
        hung = machine.show(AGENT, "MainPID")
        machine("kill", "-STOP", hung)
        wait_until(lambda: machine.show(AGENT, "MainPID") not in (hung, "0") and machine.get(AGENT, "/healthz"))
    assert any("Watchdog timeout" in message for message in machine.journal())


def test_an_upgrade_runs_the_new_version_and_keeps_what_was_learnt(machine: Machine) -> None:
    states = [machine.file(f"/var/lib/private/{unit}/state.db") for unit in (NODE, ANALYZER)]
    before = [state.stat().st_ino for state in states]
    _pip(machine, "new")
    machine(BIN / AGENT, "install")
    machine("systemctl", "restart", NODE, ANALYZER)
    assert '.post1"' in machine.get(AGENT, "/metrics")
    wait_until(lambda: len(_gpus(machine)) == 2)
    assert [state.stat().st_ino for state in states] == before


def test_a_stop_ends_every_process_and_an_uninstall_leaves_nothing(machine: Machine) -> None:
    machine("systemctl", "stop", *PORTS)
    for unit in PORTS:
        assert (machine.show(unit, "ActiveState"), machine.show(unit, "Result")) == ("inactive", "success")
    for program in ("agent", "node", "analyzer"):
        machine(BIN / AGENT, "uninstall", program, "--purge")
    for unit in PORTS:
        assert machine("systemctl", "status", unit, check=False).returncode == 4  # no such unit
    assert [path.name for path in machine.file("/etc/epochcast").iterdir()] == ["token"]  # of the test
