"""Plans of campaigns: what a grid holds, and that the shipped ones name networks that exist."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")

from lab.campaign.__main__ import PLANS, name_of, workloads  # noqa: E402
from lab.campaign.networks import NETWORKS  # noqa: E402


def test_lists_make_a_grid_in_the_order_of_the_plan(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        '[[workload]]\nnetwork = ["A", "B"]\nsamples = 9\nbatch_size = [16, 32]\nimage_size = 64\nprecision = "amp"\n'
    )
    found = workloads(plan)
    assert [name_of(workload) for workload in found] == ["A|16|64|9|amp", "A|32|64|9|amp", "B|16|64|9|amp", "B|32|64|9|amp"]
    assert {workload["epochs"] for workload in found} == {10}


def test_shipped_plans_name_networks_that_exist() -> None:
    named = {path.stem: workloads(path) for path in PLANS.glob("*.toml")}
    assert len(named["paper-grid"]) == 14 * 5 * 5 and len(named) == 3
    assert {workload["network"] for plan in named.values() for workload in plan} <= set(NETWORKS)
