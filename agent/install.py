"""Agent, node analyzer and service under systemd: place a unit and its settings, take them away.

``epochcast-agent install`` may be run again at any time: it replaces the unit, which is ours, and keeps settings, which are the
user's. Files are placed whole or not at all, the unit last.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO

from epochcast.agent.config import Config
from epochcast.common.arguments import add_command
from epochcast.common.errors import InputError
from epochcast.common.files import write_whole
from epochcast.common.settings_file import load, read_toml
from epochcast.extras import how_to_install

# What can be installed, and the command that it is.
PROGRAMS = {"agent": "epochcast-agent", "node": "epochcast", "analyzer": "epochcast"}
UNITS, SETTINGS = Path("etc/systemd/system"), Path("etc/epochcast")
# Of Prometheus and Grafana, wherever they run.
MONITORING = SETTINGS / "monitoring"
REAL_TIME = UNITS / "epochcast-agent.service.d/real-time.conf"

# The folder of the commands in the units as they are shipped.
SHIPPED_COMMANDS = "/opt/epochcast/bin"
REAL_TIME_COST = (
    f"real time: a tick (on an H200 1.3 to 2.1 ms of CPU per GPU) runs before any other program; to undo it, see /{REAL_TIME}"
)
# What ProtectHome and PrivateTmp hide from the service.
HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")


def add_commands(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add ``install`` and ``uninstall`` to the command line."""
    place = add_command(
        commands,
        "install",
        "run the agent, the node analyzer or the service with systemd, now and at every boot",
        "sudo epochcast-agent install --config agent.toml",
    )
    place.add_argument(
        "--config", type=Path, metavar="FILE", default=argparse.SUPPRESS, help=f"settings file to install in /{SETTINGS}"
    )
    place.add_argument("--real-time", action="store_true", help="let sampling run before ordinary programs, even the trainer's")
    remove = add_command(
        commands, "uninstall", "stop the service and remove its unit", "sudo epochcast-agent uninstall --purge"
    )
    remove.add_argument("--purge", action="store_true", help="also remove the settings and drop-ins")
    for parser in (place, remove):
        parser.add_argument("program", nargs="?", choices=PROGRAMS, default="agent", help="which of them (default agent)")


def install(
    program: str = "agent",
    root: Path = Path("/"),
    config: Path | None = None,
    command: Path | None = None,
    real_time: bool = False,
) -> list[str]:
    """Place unit, settings and what monitors them below ``root``, enable and start the service; return what was done.

    ``config``: settings to place, None for the example, in which every line is a comment. ``command``: the path of the
    program's command, None for that of the running installation. ``real_time``: place the agent's drop-in that lets sampling
    run before ordinary programs; one that is there is replaced in any case. Where systemd does not run, and below another root
    than ``/``, the service is left to be enabled. Raises InputError when the service could not work or may not be placed.
    """
    name, real_time_file = f"epochcast-{program}", root / REAL_TIME
    _require_rights(root, "install")
    if real_time and program != "agent":
        raise InputError(f"--real-time is for the agent, which samples, not for {program!r}; leave it out")
    command = command or running_command(PROGRAMS[program])
    settings, unit = root / SETTINGS / f"{program}.toml", root / UNITS / f"{name}.service"
    wanted = _shipped(f"systemd/{program}.toml") if config is None else _checked(program, config)
    if settings.exists() and _checked(program, settings) != wanted and config is not None:
        raise InputError(f"{settings} is already there and differs from {config}; change it there, or remove it first")
    if unit.is_symlink():
        raise InputError(f"{unit} is a link (a masked unit?); remove it first: systemctl unmask {name}")

    said = [_kept_or_placed(settings, wanted), *_place_monitoring(root)]
    if real_time or (program == "agent" and real_time_file.exists()):
        said += [_placed(real_time_file, _shipped(f"systemd/{REAL_TIME.name}")), REAL_TIME_COST]
    text = _shipped(f"systemd/{name}.service").replace(f"={SHIPPED_COMMANDS}/{command.name} ", f"={_quoted(command)} ")
    said.append(_placed(unit, text))
    if not _systemd_runs(root):
        return [*said, f"systemd is not running here; where it is: systemctl daemon-reload && systemctl enable --now {name}"]
    _systemctl("daemon-reload")
    _systemctl("enable", name)
    # Not `enable --now`: a service that runs already has to become the one just placed.
    _systemctl("restart", name)
    return [*said, f"{name} is running and starts at every boot; its log: journalctl -u {name}"]


def uninstall(program: str = "agent", root: Path = Path("/"), purge: bool = False) -> list[str]:
    """Stop and disable the service and remove its unit below ``root``; return what was done.

    Settings and drop-ins stay unless ``purge``, and what monitors until the last program goes. Raises InputError when that is
    not allowed or systemd refuses.
    """
    name = f"epochcast-{program}"
    unit = root / UNITS / f"{name}.service"
    _require_rights(root, "uninstall")
    said = []
    if unit.exists():
        if _systemd_runs(root):
            _systemctl("disable", "--now", name)
        (unit.parent / "multi-user.target.wants" / unit.name).unlink(missing_ok=True)
        said.append(_removed(unit))
        if _systemd_runs(root):
            _systemctl("daemon-reload")
    else:
        said.append(f"{unit} is not there")
    left = [unit.with_suffix(".service.d"), root / SETTINGS / f"{program}.toml"]
    if not any((root / UNITS / f"epochcast-{other}.service").exists() for other in PROGRAMS):
        left.append(root / MONITORING)
    for path in filter(Path.exists, left):
        said.append(_removed(path) if purge else f"kept {path} (--purge removes it)")
    if purge:
        with suppress(OSError):  # certificates or another service's settings: not ours to remove
            (root / SETTINGS).rmdir()
    return said


def running_command(name: str) -> Path:
    """Return the path of a command that belongs to this Python; raise InputError where a service cannot use it."""
    command = Path(sysconfig.get_path("scripts")) / name
    if not command.exists():
        raise InputError(f"there is no {command} for the service to start; install the package there: {how_to_install()}")
    for path in (command, Path(sys.executable), Path(__file__)):
        for place in dict.fromkeys((path, path.resolve())):
            _require_reachable(place)
    return command


def _require_reachable(path: Path) -> None:
    """Raise InputError unless the service's user, who is nobody in particular, sees and may read ``path``."""
    remedy = "create a virtual environment elsewhere with the system's Python: /usr/bin/python3 -m venv /opt/epochcast"
    for hidden in map(Path, HIDDEN):
        if hidden in path.parents:
            raise InputError(f"{path} is in {hidden}, which the service cannot see; {remedy}")
    for place in (*reversed(path.parents), path):
        needed = 0o001 if place.is_dir() else 0o004
        if not place.stat().st_mode & needed:
            raise InputError(f"{place} is closed to the service's user; open it: chmod -R o+rX {place}")


def _quoted(command: Path) -> str:
    """Return the first word of a command line in a unit: quoted for its spaces, ``%`` doubled; a ``$`` means nothing there."""
    text = str(command)
    if not text.isprintable() or set(text) & set("\"'\\"):
        raise InputError(f"systemd cannot start a program with quotes or control characters in its path, {text!r}; move it")
    return f'"{text.replace("%", "%%")}"' if set(text) & set(" ;") else text.replace("%", "%%")


def _shipped(path: str) -> str:
    return files("epochcast").joinpath(path).read_text(encoding="utf-8")


def _place_monitoring(root: Path) -> list[str]:
    """Place rules and dashboards, which are ours, and a scrape configuration, which gets the user's targets."""
    shipped = Path(str(files("epochcast"))) / "dashboards"
    for path in (*shipped.glob("*.yml"), *shipped.glob("grafana/*.json")):
        place = _kept_or_placed if path.name == "prometheus.yml" else _placed
        place(root / MONITORING / path.relative_to(shipped), path.read_text(encoding="utf-8"))
    return [f"placed {root / MONITORING}: rules and scrape configuration of Prometheus, dashboards of Grafana"]


def _checked(program: str, config: Path) -> str:
    """Return the text of a settings file; raise InputError when the agent would not start with it, or it is not TOML.

    The others check theirs when they start; the agent's environment may not have what they need.
    """
    _ = load(Config, config, {}) if program == "agent" else read_toml(config)
    return config.read_text(encoding="utf-8")


def _require_rights(root: Path, verb: str) -> None:
    if root == Path("/") and os.geteuid() != 0:
        raise InputError(f"{verb} changes /etc, which needs root; run: sudo {sys.argv[0]} {verb}")


def _kept_or_placed(path: Path, text: str) -> str:
    return f"kept {path}" if path.exists() else _placed(path, text)


def _placed(path: Path, text: str) -> str:
    """Write a file that everybody may read, whole or not at all."""
    try:
        missing = [folder for folder in path.parents if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in missing:  # regardless of root's umask
            folder.chmod(0o755)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error

    def write(file: BinaryIO) -> None:
        os.fchmod(file.fileno(), 0o644)
        file.write(text.encode())

    write_whole(path, write)
    return f"placed {path}"


def _removed(path: Path) -> str:
    try:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        raise InputError(f"cannot remove {path}: {error.strerror}") from error
    return f"removed {path}"


def _systemd_runs(root: Path) -> bool:
    # What sd_booted(3) looks at. Below another root it would be the wrong systemd.
    return root == Path("/") and Path("/run/systemd/system").is_dir()


def _systemctl(*arguments: str) -> None:
    done = subprocess.run(["systemctl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or f"exit {done.returncode}").splitlines()[0]
        raise InputError(f"systemctl {' '.join(arguments)} failed ({said}); see journalctl -u {arguments[-1]}")
