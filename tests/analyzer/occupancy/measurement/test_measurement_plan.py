"""What is measured, and in which order."""

from collections import Counter
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from epochcast.analyzer.backends.occupancy.measurement.plan import plan

NETWORKS = ("resnet18", "lstm", "bert", "my_nets:small")


def test_every_configuration_at_every_precision_once():
    planned = plan(NETWORKS, 5, ("fp32", "bf16"), seed=3)
    assert len(set(planned)) == len(planned) == 4 * 5 * 2
    assert Counter(one.network for one in planned) == dict.fromkeys(NETWORKS, 10)
    by_precision = [{replace(one, precision="") for one in planned if one.precision == name} for name in ("fp32", "bf16")]
    assert by_precision[0] == by_precision[1]


def test_any_beginning_holds_networks_equally_often():
    planned = plan(NETWORKS, 5, ("fp32",), seed=3)
    for end in range(1, len(planned) + 1):
        seen = Counter(one.network for one in planned[:end])
        assert max(seen.values()) - min(seen[name] for name in NETWORKS) <= 1


def test_draws_depend_on_the_seed_and_not_on_other_networks():
    alone = set(plan(("bert",), 5, ("fp32",), seed=3))
    assert alone == {one for one in plan(NETWORKS, 5, ("fp32",), seed=3) if one.network == "bert"}
    assert plan(NETWORKS, 5, ("fp32",), seed=3) == plan((*NETWORKS, "bert"), 5, ("fp32", "fp32"), seed=3)
    assert plan(NETWORKS, 5, ("fp32",), seed=3) != plan(NETWORKS, 5, ("fp32",), seed=4)


def test_a_network_with_few_sizes_has_fewer_configurations():
    assert len(plan(("my_nets:small",), 1000, ("fp32",), seed=0)) == 29  # batches from 16 to 128 in steps of 4
