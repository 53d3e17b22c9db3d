"""What /proc tells of a process: its name, user, container, pod and Slurm job."""

import os
import pwd
from typing import Any

import pytest

from epochcast.agent.processes import Owner, read_owner

ID = "0123456789abcdef" * 4
INNER = "fedcba9876543210" * 4
POD = "12345678-1234-1234-1234-1234567890ab"
NO_SUCH_PID = 2**30  # beyond the largest that Linux gives out


@pytest.mark.parametrize(
    ("cgroup", "expected"),
    [
        # a plain process
        ("0::/user.slice/user-1000.slice/session-2.scope\n", Owner()),
        # Docker: version 1 with cgroupfs, version 2 seen from a cgroup namespace
        (f"12:devices:/docker/{ID}\n11:memory:/docker/{ID}\n0::/\n", Owner(container=ID)),
        (f"0::/../../docker-{ID}.scope/init\n", Owner(container=ID)),
        # Kubernetes: containerd with cgroupfs, containerd with systemd, a pod of a node's own manifests
        (f"5:devices:/kubepods/burstable/pod{POD}/{ID}\n", Owner(container=ID, pod=POD)),
        (
            f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{POD.replace('-', '_')}.slice"
            f"/cri-containerd-{ID}.scope\n",
            Owner(container=ID, pod=POD),
        ),
        (f"0::/kubepods/burstable/pod{ID[:32]}/{ID}\n", Owner(container=ID, pod=ID[:32])),
        # a container within a pod's container
        (f"0::/kubepods/pod{POD}/{ID}/docker/{INNER}\n", Owner(container=INNER, pod=POD)),
        # Slurm: version 1 and 2 with a node name, and a container within a job
        ("9:memory:/slurm_node07/uid_1000/job_4711/step_batch\n", Owner(slurm_job="4711")),
        ("0::/system.slice/node07_slurmstepd.scope/job_4711/step_0/user/task_0\n", Owner(slurm_job="4711")),
        (
            f"0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0/libpod-{ID}.scope\n",
            Owner(container=ID, slurm_job="4711"),
        ),
        # names that only look like one
        ("0::/user.slice/job_12/backup\n", Owner()),
        (f"0::/system.slice/docker-{ID}0.scope\n", Owner()),
        (f"0::/system.slice/docker-{ID[:12]}.scope\n", Owner()),
        ("", Owner()),
    ],
)
def test_control_groups(proc: Any, cgroup: str, expected: Owner) -> None:
    proc.add(7, cgroup=cgroup)
    root = pwd.getpwuid(0).pw_name
    assert read_owner(7, proc.root, users=True) == expected._replace(process="python", user=root)


def test_a_user_without_a_name_is_its_number(proc: Any) -> None:
    proc.add(7, uid=3_999_999_999)
    owner = read_owner(7, proc.root, users=True)
    assert owner is not None
    assert owner.user == "3999999999"


def test_odd_process_names_are_kept(proc: Any) -> None:
    proc.add(7, name="a:\tb")
    (proc.root / "8").mkdir()
    (proc.root / "8" / "status").write_bytes(b"Name:\t\xff\xfe\nUid:\tnone\n")
    (proc.root / "8" / "cgroup").write_text("")
    assert read_owner(7, proc.root, users=True).process == "a:\tb"  # type: ignore[union-attr]
    assert read_owner(8, proc.root, users=True) == Owner(process="��")


def test_gone_and_hidden_processes_are_told_apart(proc: Any) -> None:
    assert read_owner(NO_SUCH_PID, proc.root, users=True) is None
    assert read_owner(2**32 - 1, proc.root, users=True) is None
    assert read_owner(os.getpid(), proc.root, users=True) == Owner(), "it runs, but this /proc does not show it"


def test_whose_it_is_is_told_only_where_it_may_be(proc: Any) -> None:
    proc.add(7, uid=os.getuid(), cgroup="9:memory:/slurm/uid_1000/job_4711/step_0/task_0\n")
    assert read_owner(7, proc.root, users=False) == Owner("python", slurm_job="4711")
