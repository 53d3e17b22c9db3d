"""Whose a process is, as far as ``/proc`` shows: its name, user, container, Slurm job and pod."""

import os
import pwd
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

# Docker, containerd, CRI-O and Podman all name a container's control group by its 64 hexadecimal digits: `docker/ID`,
# `docker-ID.scope`, `cri-containerd-ID.scope`, `crio-ID.scope`, `libpod-ID.scope`, `kubepods/…/podUID/ID`.
CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
# systemd writes `_` for the dashes of a pod's UID; pods of a node's own manifests have none.
POD = re.compile(r"pod([0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12})(?![0-9a-f])")
# Version 1: `slurm/uid_U/job_J/step_S`; version 2: `slurmstepd.scope/job_J/step_S`.
SLURM_JOB = re.compile(r"/[^/]*slurm[^/]*/(?:uid_\d+/)?job_(\d+)(?:/|$)", re.MULTILINE)


class Owner(NamedTuple):
    """What ``/proc`` shows of a process."""

    process: str = ""
    user: str = ""
    container: str = ""
    slurm_job: str = ""
    pod: str = ""


def read_owner(pid: int, proc: Path, *, users: bool) -> Owner | None:
    """Return what ``/proc`` shows of a process: nothing where it is hidden from us, None when the process is gone.

    ``users``: whether to name its user.
    """
    try:
        status = (proc / str(pid) / "status").read_text(errors="replace")
        groups = (proc / str(pid) / "cgroup").read_text(errors="replace")
    except OSError:
        return None if _gone(pid) else Owner()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    uid = fields.get("Uid", "").partition("\t")[0]
    containers, pods, jobs = (pattern.findall(groups) for pattern in (CONTAINER, POD, SLURM_JOB))
    return Owner(
        process=fields.get("Name", ""),
        user=_user(int(uid)) if users and uid.isdecimal() else "",
        # A container within a container: the innermost is the one that runs the process.
        container=containers[-1] if containers else "",
        slurm_job=jobs[-1] if jobs else "",
        pod=pods[-1].replace("_", "-") if pods else "",
    )


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # sends nothing
    except PermissionError:
        return False
    except (ProcessLookupError, OverflowError):
        return True
    return False


@lru_cache(maxsize=1024)
def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
