"""Which GPUs are put together, under which id, and that it stays theirs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest

from epochcast.analyzer.jobs.grouping import Group, group, grouped, in_step
from epochcast.analyzer.telemetry.gpu_report import NOTHING, EpochRecord, Owner, Report

from .made_reports import BEGAN, report


def groups(*reports: Report, known: Iterable[Group] = ()) -> list[Group]:
    return group({one.device.uuid: one for one in reports}, known)


def known(groups: Iterable[Group], *reports: Report) -> list[Group]:
    """What the store remembers of them."""
    since = {one.device.uuid: one.job_since or 0.0 for one in reports}
    each = [(one, {uuid: since[uuid] for uuid in one.gpus}) for one in groups]
    return [replace(one, since=min(members.values()), members=members) for one, members in each]


def moved(report: Report, seconds: Iterable[float]) -> Report:
    """Its epochs' ends shifted one by one."""
    return replace(
        report,
        epochs=tuple(
            EpochRecord(one.start, one.end + by, one.confidence, one.job_since)
            for one, by in zip(report.epochs, seconds, strict=True)
        ),
    )


def test_slurm_joins_nodes_and_parts_what_is_in_step() -> None:
    reports = [
        report("GPU-a", node="node-1", owners=(Owner(1, "python", slurm_job="12"),)),
        report("GPU-b", node="node-2", owners=(Owner(1, "python", slurm_job="12"),)),
        report("GPU-c", node="node-2", label="1", owners=(Owner(2, "python", slurm_job="13"),)),
    ]
    found = groups(*reports)
    assert {one.id: one.gpus for one in found} == {"slurm-12": ("GPU-a", "GPU-b"), "slurm-13": ("GPU-c",)}
    assert found[0].title == "Slurm job 12" and found[0].grouped_by == "slurm_job"


def test_pods_containers_and_processes() -> None:
    def owned(uuid: str, node: str, since: float, **owner: str) -> Report:
        return report(uuid, node=node, since=since, owners=(Owner(7, "python", **owner),))

    found = groups(
        owned("GPU-a", "n1", BEGAN, pod="pod/1", container="c" * 64),
        owned("GPU-b", "n1", BEGAN, pod="pod/1", container="d" * 64),
        owned("GPU-c", "n1", BEGAN + 1000, container="c" * 64),
        owned("GPU-d", "n2", BEGAN + 2000, container="c" * 64),
        owned("GPU-e", "n1", BEGAN + 3000),
        owned("GPU-f", "n1", BEGAN + 4000),
    )
    assert {one.id: (one.grouped_by, one.gpus) for one in found} == {
        "pod-pod-1": ("pod", ("GPU-a", "GPU-b")),
        "container-cccccccccccc-n1": ("container", ("GPU-c",)),
        "container-cccccccccccc-n2": ("container", ("GPU-d",)),
        "n1-7": ("process", ("GPU-e", "GPU-f")),
    }
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", one.id) for one in found)


def test_ranks_that_show_on_the_first_gpu_join_it_and_servers_of_the_node_do_not() -> None:
    server = Owner(1, "nvidia-cuda-mps")
    ranks = [Owner(100 + n, "python") for n in range(3)]
    first = report("GPU-0", label="0", verdict="none", owners=(server, *ranks[:2]))
    second = report("GPU-1", label="1", verdict="none", owners=(server, ranks[1]))
    other = report("GPU-2", label="2", verdict="none", owners=(server, ranks[2]))
    found = {one.id: one.gpus for one in groups(first, second, other)}
    assert found == {"node-1-100": ("GPU-0", "GPU-1"), "node-1-102": ("GPU-2",)}


def test_in_step_without_owners_or_with_a_process_for_each_rank() -> None:
    alone = [report(f"GPU-{n}", label=str(n), shift=0.03 * n) for n in range(4)]
    (found,) = groups(*alone)
    assert found.grouped_by == "phase" and found.gpus == ("GPU-0", "GPU-1", "GPU-2", "GPU-3")
    assert found.id == f"phase-GPU-0-{BEGAN:.0f}" and found.title == "4 synchronous GPUs on node-1"
    assert "count as one job because their epochs" in found.notes[0]
    ranks = [replace(one, owners=(Owner(50 + n, "python", "ada"),)) for n, one in enumerate(alone)]
    assert len(groups(*ranks)) == 1
    assert len(groups(*ranks[:3], replace(ranks[3], owners=(Owner(53, "python", "eve"),)))) == 2, "another user's"
    assert len(groups(*ranks[:3], replace(ranks[3], owners=(Owner(53, "julia", "ada"),)))) == 2, "another program"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"period": 30.9}, "longer epochs"),
        ({"shift": 3.0}, "other boundaries"),
        ({"since": BEGAN - 31}, "another beginning, a whole epoch earlier"),
        ({"epochs": 4}, "too few epochs together"),
        ({"verdict": "steps"}, "no epochs"),
    ],
)
def test_what_is_not_in_step_stays_alone(change: dict[str, float], why: str) -> None:
    assert in_step(report(), report("GPU-b"))
    assert not in_step(report(), report("GPU-b", **change)), why


def test_equal_jobs_of_one_script_scatter_more_than_ranks() -> None:
    rank = moved(report("GPU-b"), [0.1, 0.0, -0.1, 0.1, 0.0, 0.0, -0.1, 0.1])
    sweep = moved(report("GPU-c"), [0.1, 0.3, 0.2, 0.5, 0.7, 0.6, 0.9, 1.0])
    assert in_step(report(), rank) and not in_step(report(), sweep)
    late = moved(report("GPU-d"), [1.2] * 8)
    assert in_step(report(), late), "clocks of two nodes may differ"


def test_only_epochs_that_both_were_watched_in_count() -> None:
    whole = report(epochs=40)
    late = replace(report("GPU-b", epochs=40), epochs=report(epochs=40).epochs[-8:])
    assert in_step(whole, late) and in_step(late, whole)
    every_other = replace(whole, epochs=whole.epochs[::2])
    assert not in_step(whole, every_other) and not in_step(every_other, whole), "twice as long, regardless of the period"
    some_missed = replace(whole, epochs=tuple(one for n, one in enumerate(whole.epochs) if n not in (17, 25, 31)))
    assert in_step(whole, some_missed) and in_step(some_missed, whole)


def test_ids_stay_while_a_gpu_joins_falls_silent_or_leaves() -> None:
    early = [report("GPU-b", label="1", verdict="none"), report("GPU-a", verdict="none", since=BEGAN + 1)]
    first = groups(*early)
    assert {one.id for one in first} == {f"gpu-GPU-b-{BEGAN:.0f}", f"gpu-GPU-a-{BEGAN + 1:.0f}"}
    later = [report("GPU-b", label="1"), report("GPU-a", since=BEGAN + 1, shift=-1)]
    (joined,) = groups(*later, known=known(first, *early))
    assert joined.id == f"gpu-GPU-b-{BEGAN:.0f}", "the earliest that was published"
    memory = known([joined], *later)
    withdrawn = [later[0], replace(later[1], detection=NOTHING, epochs=())]
    assert [one.id for one in groups(*withdrawn, known=memory)] == [joined.id], "nothing speaks against it"
    third = report("GPU-0", label="7")
    assert [(one.id, len(one.gpus)) for one in groups(*later, third, known=memory)] == [(joined.id, 3)]
    apart = moved(later[1], [0.5 * n for n in range(8)])
    parted = {one.id: one.gpus for one in groups(later[0], apart, known=memory)}
    assert parted == {joined.id: ("GPU-b",), f"gpu-GPU-a-{BEGAN + 1:.0f}": ("GPU-a",)}
    (three,) = groups(*later, third, known=memory)
    left = moved(later[0], [0.5 * n for n in range(8)])
    found = groups(left, later[1], third, known=known([three], *later, third))
    assert {one.id: one.gpus for one in found} == {joined.id: ("GPU-a", "GPU-0"), f"{joined.id}.2": ("GPU-b",)}
    again = groups(left, later[1], third, known=known(found, left, later[1], third))
    assert {one.id: one.gpus for one in again} == {one.id: one.gpus for one in found}


def test_a_job_that_its_owners_named_keeps_its_name_when_they_are_gone() -> None:
    running = [report(f"GPU-{n}", label=str(n), owners=(Owner(9, "python", slurm_job="5"),)) for n in range(2)]
    memory = known(groups(*running), *running)
    ended = [replace(one, owners=(), state="idle") for one in running]
    (found,) = groups(*ended, known=memory)
    assert (found.id, found.grouped_by, found.title, len(found.gpus)) == ("slurm-5", "slurm_job", "Slurm job 5", 2)
    again = replace(running[0], job_since=BEGAN + 9000, owners=())
    assert {one.id for one in groups(again, ended[1], known=memory)} == {f"gpu-GPU-0-{BEGAN + 9000:.0f}", "slurm-5"}


def test_a_found_again_beginning_is_the_same_job() -> None:
    memory = known(groups(report()), report())
    assert groups(report(since=BEGAN + 20), known=memory)[0].id == f"gpu-GPU-a-{BEGAN:.0f}"
    assert groups(report(since=BEGAN + 400), known=memory)[0].id == f"gpu-GPU-a-{BEGAN + 400:.0f}"


def test_a_shared_gpu_says_so() -> None:
    owners = (Owner(1, "python", slurm_job="5"), Owner(2, "python", slurm_job="6"))
    (found,) = groups(report(owners=owners))
    of_both = "; the answer is for one of them, but the metrics cover both"
    start = "GPU 0 of node-1: two jobs share the GPU: "
    assert found.id == "slurm-5"
    assert found.notes == (f"{start}processes of the Slurm jobs 5 and 6 run on it{of_both}",)
    users = (Owner(1, "python", user="ada"), Owner(2, "python", user="ben"))
    assert groups(report(owners=users))[0].notes == (f"{start}processes of the users ada and ben run on it{of_both}",)
    assert groups(report(owners=(Owner(1, "python"), Owner(2, "python"))))[0].notes == ()  # one job may have several


def test_gpus_whose_names_are_paths_keep_jobs_of_their_own() -> None:
    names = [
        f"file-{node}/0.csv" for node in ("\N{CJK UNIFIED IDEOGRAPH-4E00}", "\N{CJK UNIFIED IDEOGRAPH-4E8C}", "a b", "a/b")
    ]
    names += [f"file-{'x' * 300}{number}.csv" for number in range(3)]
    found = groups(*(report(name, verdict="none") for name in names))
    assert sorted(one.gpus for one in found) == [(name,) for name in sorted(names)]
    assert len({one.id for one in found}) == len(names)
    alone = {group({name: report(name, verdict="none")})[0].id for name in names}
    assert alone == {one.id for one in found}, "an id does not depend on what else there is"
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,200}", one.id) for one in found)


def test_traces_of_one_gpu_that_begin_in_one_second_are_jobs_of_their_own() -> None:
    reports = [report("GPU-a", verdict="none", since=BEGAN + 0.1 * number) for number in range(3)]
    found = [one.id for one, _ in grouped(reports)]
    assert sorted(found) == [f"gpu-GPU-a-{BEGAN:.0f}{more}" for more in ("", ".2", ".3")]
