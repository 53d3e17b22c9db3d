"""What is measured: sizes drawn from Table II, and in which order."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

pytest.importorskip("torch")

from epochcast.analyzer.backends.occupancy.measurement.plan import LENGTHS, SMALLER_IMAGES, draw, plan
from epochcast.analyzer.backends.occupancy.networks import NETWORKS as TABLE_II
from epochcast.analyzer.backends.occupancy.networks import complete, family

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


DRAWS = 300


@pytest.mark.parametrize("network", ["resnet50", "lenet", "lstm", "vit_tiny_patch16_224", "bert", "clip_vit_b16"])
def test_sizes_lie_in_the_ranges_of_the_table(network):
    rng = Random(1)
    drawn = [draw(network, rng) for _ in range(DRAWS)]
    seen = {name: {getattr(one, name) for one in drawn} for name in ("batch", "channels", "image_size", "sequence", "hidden")}
    if family(network) == "rnn":
        assert seen["batch"] <= {8 * x for x in range(16, 65)}
        assert seen["sequence"] == {8 * x for x in range(2, 17)}
        assert {one.layers for one in drawn} == {1, 2}
        return
    assert seen["batch"] == {4 * x for x in range(4, 33)}
    if family(network) == "language":
        assert seen["sequence"] == set(LENGTHS)
        assert seen["channels"] == {0}
        return
    assert seen["channels"] == set(range(1, 11))
    assert seen["image_size"] == ({224, *SMALLER_IMAGES} if family(network) == "cnn" else {224})
    assert min(seen["sequence"]) >= (20 if network.startswith("clip") else 0)
    assert max(seen["sequence"]) <= 77


def test_every_network_takes_what_is_drawn_and_draws_repeat():
    for network in TABLE_II:
        first = [draw(network, Random(seed), "bf16") for seed in range(20)]
        assert first == [draw(network, Random(seed), "bf16") for seed in range(20)]
        assert first == [complete(one) for one in first]
        assert {one.precision for one in first} == {"bf16"}


def test_of_other_networks_the_batch_alone_is_drawn():
    drawn = [draw("my_nets:small", Random(seed)) for seed in range(20)]
    assert len({one.batch for one in drawn}) > 5
    assert len({one.one_sample for one in drawn}) == 1
