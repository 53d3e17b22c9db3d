"""Peak memory from shapes, and the trees and the risk that are fitted on it; graphs are of layer lists."""

import pytest

from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration, Sample
from epochcast.analyzer.backends.occupancy.peak_memory import CONTEXT, CUDNN, estimate
from epochcast.regressor import load_catalog
from lab.occupancy.from_layers import ListedLayer, graph_of_layers

GPU = load_catalog().resolve("A100 SXM4 40GB")
WIDTH, BATCH, HIDDEN = 64, 2**17, 6
TENSOR = 4 * WIDTH * BATCH
"""Bytes of an activation."""


def dense(*between, width=WIDTH, batch=BATCH, hidden=HIDDEN, gpu=GPU):
    """Dense layers with other layers after each but the last."""
    layers = [ListedLayer("linear", width, width * (width + 1))]
    layers = [*layers, *(ListedLayer(kind, width, 0) for kind in between)] * hidden + layers
    return Sample(NetworkConfiguration("dense", batch), graph_of_layers("dense", layers, "uniform", width, 1, batch), gpu)


def convolutions(count=4, channels=16, side=64, batch=64):
    layers = [
        ListedLayer("conv2d", channels * side**2, channels * (channels * 9 + 1)),
        ListedLayer("gelu", channels * side**2, 0),
    ]
    return Sample(
        NetworkConfiguration("conv", batch, channels),
        graph_of_layers("conv", layers * count, "uniform", channels, side, batch),
        GPU,
    )


def live(*between):
    return estimate(dense(*between)).live


def test_an_activation_that_keeps_its_input_holds_a_tensor_more_per_layer():
    assert live("gelu") - live("relu") == pytest.approx(HIDDEN * TENSOR, rel=0.01)
    assert live("tanh") == live("relu")


def test_weights_take_twenty_bytes_under_adam():
    one = dense(width=4096, batch=1, hidden=9)
    assert estimate(one).live - CONTEXT == pytest.approx(20 * one.graph.column("weights").sum(), rel=0.01)


def test_convolutions_have_workspaces_of_input_and_answer():
    memory = estimate(convolutions())
    assert memory.bare_live > CONTEXT + CUDNN
    # two tensors; by then GELU's way back, where the peak would be without them, has given its input back
    assert memory.live - memory.bare_live == pytest.approx(4 * 16 * 64**2 * 64, rel=0.01)
    assert memory.peak >= memory.live
