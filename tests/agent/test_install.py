"""Placing the service and taking it away, below a root of its own; systemd itself is a script that notes what it is told."""

import os
import shutil
import stat
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from epochcast.agent import install as module
from epochcast.agent.cli import build_parser
from epochcast.agent.config import Config
from epochcast.agent.install import install, running_command, uninstall
from epochcast.common.errors import InputError
from epochcast.common.settings_file import load

COMMAND = Path("/srv/venv/bin/epochcast-agent")
UNIT = "etc/systemd/system/epochcast-agent.service"
RULES = ["alerts.yml", "prometheus.yml", "training_alerts.yml", "training_rules.yml"]
MONITORING = [*(f"grafana/{name}.json" for name in ("agent", "fleet", "gpu", "job")), *RULES]
PLACED = ["etc/epochcast/agent.toml", UNIT]


def tree(root: Path) -> list[str]:
    """What there is below ``root``, but for the files of Prometheus and Grafana."""
    paths = sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir())
    return [path for path in paths if "/monitoring/" not in path]


def monitoring(root: Path) -> list[str]:
    folder = root / "etc/epochcast/monitoring"
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Make systemd "run": what comes back tells the systemctl commands so far. ``$SYSTEMCTL_FAILS`` fails."""
    script = tmp_path / "bin" / "systemctl"
    script.parent.mkdir()
    script.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/told\n[ "$1" != "$SYSTEMCTL_FAILS" ] || {{ echo "Job failed." >&2; exit 1; }}\n'
    )
    script.chmod(0o755)
    (tmp_path / "told").touch()
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(module, "_systemd_runs", lambda root: True)
    return lambda: (tmp_path / "told").read_text().splitlines()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_the_unit_and_its_files_are_placed_for_the_services_user_to_read(root: Path) -> None:
    previous = os.umask(0o077)  # a careful root's
    try:
        said = install(root=root, command=COMMAND)
    finally:
        os.umask(previous)
    assert tree(root) == PLACED
    for path in root.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644)
    assert monitoring(root) == sorted(MONITORING)
    assert [line.split()[0] for line in said[:3]] == ["placed"] * 3
    assert "systemctl enable --now epochcast-agent" in said[3]
    assert [line for line in (root / UNIT).read_text().splitlines() if line.startswith("Exec")] == [
        f"ExecStart={COMMAND} --config /etc/epochcast/agent.toml",
        "ExecReload=/bin/kill -HUP $MAINPID",
        f"ExecReload={COMMAND} --config /etc/epochcast/agent.toml check --settings",
    ]
    load(Config, root / "etc/epochcast/agent.toml", {})


@pytest.mark.parametrize(("program", "options"), [("node", "serve --node"), ("analyzer", "serve")])
def test_node_and_service_are_installed_and_taken_away_as_the_agent_is(
    root: Path, systemctl: Callable[[], list[str]], tmp_path: Path, program: str, options: str
) -> None:
    unit, settings = root / f"etc/systemd/system/epochcast-{program}.service", root / f"etc/epochcast/{program}.toml"
    install(root=root, command=COMMAND)
    install(program, root=root, command=Path("/srv/venv/bin/epochcast"))
    assert f"\nExecStart=/srv/venv/bin/epochcast {options} --config /etc/epochcast/{program}.toml\n" in unit.read_text()
    assert systemctl()[3:] == ["daemon-reload", f"enable epochcast-{program}", f"restart epochcast-{program}"]
    (tmp_path / "bad.toml").write_text("port = \n")
    settings.unlink()
    with pytest.raises(InputError, match=r"bad.toml is not TOML"):
        install(program, root=root, command=Path("/srv/venv/bin/epochcast"), config=tmp_path / "bad.toml")
    with pytest.raises(InputError, match=f"--real-time is for the agent, .* not for '{program}'"):
        install(program, root=root, command=Path("/srv/venv/bin/epochcast"), real_time=True)
    assert uninstall(program, root=root, purge=True) == [f"removed {unit}"]
    assert systemctl()[6:] == [f"disable --now epochcast-{program}", "daemon-reload"]
    assert (tree(root), monitoring(root)) == (PLACED, sorted(MONITORING))  # of the agent, which stays


def test_systemd_finds_a_command_with_an_awkward_path(root: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    command = tmp_path / "with space" / "50%h $HOME" / "100% $x; größe" / "epochcast-agent"
    command.parent.mkdir(parents=True)
    shutil.copy("/bin/true", command)
    install(root=root, command=command)
    verify = [analyze, "verify", root / UNIT]
    assert subprocess.run(verify, capture_output=True, text=True, check=False).returncode == 0
    command.unlink()  # the path is what systemd looked at
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert str(command) in done.stderr


@pytest.mark.parametrize("folder", ['quo"te', "apos'trophe", "back\\slash", "new\nline"])
def test_a_command_that_systemd_cannot_start_is_refused(root: Path, folder: str) -> None:
    with pytest.raises(InputError, match="cannot start a program"):
        install(root=root, command=Path("/opt") / folder / "epochcast-agent")


def test_doing_it_again_replaces_the_unit_and_keeps_the_settings(root: Path) -> None:
    install(root=root, command=COMMAND)
    (root / "etc/epochcast/agent.toml").write_text("port = 9922\n")
    (root / UNIT).write_text("an older release's")
    rules, targets = (root / "etc/epochcast/monitoring" / name for name in ("alerts.yml", "prometheus.yml"))
    for path in (rules, targets):
        path.write_text("mine")
    said = install(root=root, command=COMMAND)
    assert (rules.read_text() == "mine", targets.read_text()) == (False, "mine")
    assert [line.split()[0] for line in said[:3]] == ["kept", "placed", "placed"]
    assert (root / "etc/epochcast/agent.toml").read_text() == "port = 9922\n"
    assert "Type=notify" in (root / UNIT).read_text()
    assert tree(root) == PLACED


def test_settings_are_placed_when_there_are_none_and_never_over_others(root: Path, tmp_path: Path) -> None:
    mine, other = tmp_path / "mine.toml", tmp_path / "other.toml"
    mine.write_text("port = 9922  # größer\n", encoding="utf-8")
    other.write_text("port = 9933\n")
    install(root=root, config=mine, command=COMMAND)
    assert (root / "etc/epochcast/agent.toml").read_text(encoding="utf-8") == "port = 9922  # größer\n"
    install(root=root, config=mine, command=COMMAND)
    (root / UNIT).unlink()
    with pytest.raises(InputError, match=f"already there and differs from {other}"):
        install(root=root, config=other, command=COMMAND)
    assert not (root / UNIT).exists()


@pytest.mark.parametrize("where", ["given", "there"])
def test_settings_that_the_agent_would_refuse_are_refused_before_anything_is_placed(
    root: Path, tmp_path: Path, where: str
) -> None:
    bad = tmp_path / "bad.toml" if where == "given" else root / "etc/epochcast/agent.toml"
    bad.parent.mkdir(parents=True, exist_ok=True)
    bad.write_text("prot = 9922\n")
    with pytest.raises(InputError, match="unknown setting 'prot'"):
        install(root=root, config=bad if where == "given" else None, command=COMMAND)
    assert not (root / UNIT).exists()


def test_real_time_scheduling_is_a_drop_in_that_stays_until_it_is_taken_away(root: Path) -> None:
    install(root=root, command=COMMAND)
    assert not (root / f"{UNIT}.d").exists()
    said = install(root=root, command=COMMAND, real_time=True)
    assert any("runs before any other program" in line for line in said)
    (drop_in,) = (root / f"{UNIT}.d").iterdir()
    shipped = drop_in.read_text()
    assert "LimitRTTIME=" in shipped
    drop_in.write_text("an older release's")
    install(root=root, command=COMMAND)
    assert drop_in.read_text() == shipped
    uninstall(root=root, purge=True)
    assert tree(root) == []


def test_a_service_that_does_not_start_is_one_sentence(
    root: Path, systemctl: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYSTEMCTL_FAILS", "restart")
    with pytest.raises(InputError, match=r"systemctl restart epochcast-agent failed \(Job failed\.\); see journalctl"):
        install(root=root, command=COMMAND)
    assert systemctl()[-1] == "restart epochcast-agent"
    assert tree(root) == PLACED


@pytest.mark.parametrize("verb", [install, uninstall])
def test_whoever_is_not_root_is_told_of_sudo(monkeypatch: pytest.MonkeyPatch, verb: Callable[[], list[str]]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(InputError, match=rf"needs root; run: sudo .* {verb.__name__}$"):
        verb()


def test_a_masked_unit_is_not_written_over(root: Path) -> None:
    (root / UNIT).parent.mkdir(parents=True)
    (root / UNIT).symlink_to("/dev/null")
    with pytest.raises(InputError, match="systemctl unmask"):
        install(root=root, command=COMMAND)
    assert (root / UNIT).is_symlink()


def test_a_file_that_cannot_be_written_is_one_sentence_and_leaves_nothing_half(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(root=root, command=COMMAND)
    (root / UNIT).write_text("the old unit")

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", no_space)
    with pytest.raises(InputError, match=r"cannot write .*': No space left"):
        install(root=root, command=COMMAND)
    assert (root / UNIT).read_text() == "the old unit"
    assert tree(root) == PLACED


def test_a_command_that_the_service_would_not_see_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "epochcast-agent").touch(mode=0o755)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setattr(module, "HIDDEN", (str(tmp_path.parent),))
    with pytest.raises(InputError, match=f"is in {tmp_path.parent}, which the service cannot see; create a virtual env"):
        running_command(COMMAND.name)


def test_a_command_that_only_root_may_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "epochcast-agent").touch(mode=0o755)
    closed.chmod(0o700)
    monkeypatch.setattr(module, "HIDDEN", ())
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(closed))
    with pytest.raises(InputError, match=r"is closed to the service's user; open it: chmod -R o\+rX /"):
        running_command(COMMAND.name)


def test_without_an_installed_command_there_is_no_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(InputError, match=r"install the package there: in a checkout run pip install \."):
        running_command(COMMAND.name)


def test_uninstalling_keeps_what_the_user_wrote(root: Path, systemctl: Callable[[], list[str]]) -> None:
    install(root=root, command=COMMAND)
    drop_in = root / f"{UNIT}.d" / "override.conf"
    drop_in.parent.mkdir()
    drop_in.touch()
    said = uninstall(root=root)
    assert systemctl()[3:] == ["disable --now epochcast-agent", "daemon-reload"]
    assert tree(root) == sorted([PLACED[0], f"{UNIT}.d/override.conf"])
    assert len([line for line in said if line.startswith("kept") and "--purge" in line]) == 3
    assert "is not there" in uninstall(root=root)[0]


def test_a_configuration_may_be_named_before_the_command_or_after_it() -> None:
    before, after = ("--config", "a.toml", "install"), ("install", "--config", "a.toml")
    assert vars(build_parser().parse_args(before)) == vars(build_parser().parse_args(after))
    assert vars(build_parser().parse_args(("uninstall",)))["purge"] is False
