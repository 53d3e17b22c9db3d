"""The sizes that benchmarks draw from Table II."""

from random import Random

import pytest

pytest.importorskip("torch")

from benchmarks.occupancy.random_configurations import LENGTHS, SMALLER_IMAGES, different, draw

from epochcast.analyzer.backends.occupancy.networks import NETWORKS as TABLE_II
from epochcast.analyzer.backends.occupancy.networks import complete, family


def test_draws_are_different_and_depend_on_the_generator_alone():
    drawn = different("bert", 5, Random(3))
    assert len(set(drawn)) == len(drawn) == 5
    assert drawn == different("bert", 5, Random(3)) != different("bert", 5, Random(4))


def test_a_network_with_few_sizes_has_fewer_configurations():
    assert len(different("my_nets:small", 1000, Random(0))) == 29  # batches from 16 to 128 in steps of 4


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
