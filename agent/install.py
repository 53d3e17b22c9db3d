"""The agent as a systemd service: place its unit and settings, take them away.

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
from epochcast.common.settings_file import load
from epochcast.extras import how_to_install

NAME = "epochcast-agent"
UNIT = Path("etc/systemd/system") / f"{NAME}.service"
DROP_INS = UNIT.with_suffix(".service.d")
REAL_TIME = DROP_INS / "real-time.conf"
ENABLED = UNIT.parent / "multi-user.target.wants" / UNIT.name
CONFIG = Path("etc/epochcast/agent.toml")
ENVIRONMENT = Path("etc/epochcast/agent.env")

# The command in the unit as it is shipped.
SHIPPED_COMMAND = "/opt/epochcast/bin/epochcast-agent"
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
        "run the agent as a systemd service, now and at every boot",
        "sudo epochcast-agent install --config agent.toml",
    )
    place.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=argparse.SUPPRESS,
        help=f"settings file to install as /{CONFIG}",
    )
    place.add_argument("--real-time", action="store_true", help="let sampling run before ordinary programs, even the trainer's")
    remove = add_command(
        commands, "uninstall", "stop the service and remove its unit", "sudo epochcast-agent uninstall --purge"
    )
    remove.add_argument("--purge", action="store_true", help="also remove the settings and drop-ins")


def install(
    root: Path = Path("/"), config: Path | None = None, command: Path | None = None, real_time: bool = False
) -> list[str]:
    """Place unit, settings and environment file below ``root``, enable and start the service; return what was done.

    ``config``: settings to place, None for the example, in which every line is a comment. ``command``: the path of
    epochcast-agent, None for the one that runs now. ``real_time``: place the drop-in that lets sampling run before ordinary
    programs; one that is there is replaced in any case. Where systemd does not run, and below another root than ``/``, the
    service is left to be enabled. Raises InputError when the service could not work or may not be placed.
    """
    _require_rights(root, "install")
    command = command or running_command()
    settings = root / CONFIG
    wanted = _shipped("agent.toml") if config is None else _checked(config)
    if settings.exists() and _checked(settings) != wanted and config is not None:
        raise InputError(f"{settings} is already there and differs from {config}; change it there, or remove it first")
    if (root / UNIT).is_symlink():
        raise InputError(f"{root / UNIT} is a link (a masked unit?); remove it first: systemctl unmask {NAME}")

    said = [
        _kept_or_placed(settings, wanted),
        _kept_or_placed(root / ENVIRONMENT, _shipped("agent.env")),
    ]
    if real_time or (root / REAL_TIME).exists():
        said += [_placed(root / REAL_TIME, _shipped(REAL_TIME.name)), REAL_TIME_COST]
    said.append(_placed(root / UNIT, unit(command)))
    if not _systemd_runs(root):
        return [*said, f"systemd is not running here; where it is: systemctl daemon-reload && systemctl enable --now {NAME}"]
    _systemctl("daemon-reload")
    _systemctl("enable", NAME)
    # Not `enable --now`: an agent that runs already has to become the one just placed.
    _systemctl("restart", NAME)
    return [*said, f"{NAME} is running and starts at every boot; its log: journalctl -u {NAME}"]


def uninstall(root: Path = Path("/"), purge: bool = False) -> list[str]:
    """Stop and disable the service and remove its unit below ``root``; return what was done.

    Settings and drop-ins stay unless ``purge``. Raises InputError when that is not allowed or systemd refuses.
    """
    _require_rights(root, "uninstall")
    said = []
    if (root / UNIT).exists():
        if _systemd_runs(root):
            _systemctl("disable", "--now", NAME)
        (root / ENABLED).unlink(missing_ok=True)
        said.append(_removed(root / UNIT))
        if _systemd_runs(root):
            _systemctl("daemon-reload")
    else:
        said.append(f"{root / UNIT} is not there")
    for path in filter(Path.exists, (root / DROP_INS, root / CONFIG, root / ENVIRONMENT)):
        said.append(_removed(path) if purge else f"kept {path} (--purge removes it)")
    if purge:
        with suppress(OSError):  # certificates or another service's settings: not ours to remove
            (root / CONFIG).parent.rmdir()
    return said


def unit(command: Path) -> str:
    """Return the shipped unit with ``command`` as the program that it starts."""
    shipped = _shipped(UNIT.name)
    return shipped.replace(f"\nExecStart={SHIPPED_COMMAND} ", f"\nExecStart={_quoted(command)} ")


def running_command() -> Path:
    """Return the path of the epochcast-agent that belongs to this Python; raise InputError where a service cannot use it."""
    command = Path(sysconfig.get_path("scripts")) / NAME
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


def _shipped(name: str) -> str:
    return files("epochcast").joinpath("systemd", name).read_text(encoding="utf-8")


def _checked(config: Path) -> str:
    """Return the text of a configuration file; raise InputError when the agent would not start with it."""
    load(Config, config, {})
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
        raise InputError(f"systemctl {' '.join(arguments)} failed ({said}); see journalctl -u {NAME}")
