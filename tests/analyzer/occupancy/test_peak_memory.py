"""Peak memory from shapes, and the trees and the risk that are fitted on it; graphs are of layer lists."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration
from epochcast.analyzer.backends.occupancy.peak_memory import CONTEXT, CUDNN, PeakMemory, estimate
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from lab.occupancy.from_layers import ListedLayer, graph_of_layers
from lab.occupancy.peak_memory_fit import fit_peak_memory
from lab.occupancy.training_jobs import TrainingJobs

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


def test_dropout_holds_its_answer_and_a_byte_per_element():
    assert live("relu", "dropout") - live("relu") == pytest.approx(HIDDEN * 1.25 * TENSOR, rel=0.01)


def test_weights_take_twenty_bytes_under_adam():
    one = dense(width=4096, batch=1, hidden=9)
    assert estimate(one).live - CONTEXT == pytest.approx(20 * one.graph.weight_elements, rel=0.01)


def test_convolutions_have_workspaces_of_input_and_answer():
    memory = estimate(convolutions())
    assert memory.bare_live > CONTEXT + CUDNN
    # two tensors; by then GELU's way back, where the peak would be without them, has given its input back
    assert memory.live - memory.bare_live == pytest.approx(4 * 16 * 64**2 * 64, rel=0.01)
    assert memory.peak >= memory.live


def test_activations_grow_with_the_batch():
    small, large = (estimate(dense("gelu", batch=batch)).live - CONTEXT for batch in (BATCH, 2 * BATCH))
    assert large == pytest.approx(2 * small, rel=0.01)


def trainings(gpu=GPU, factor=1.3):
    """Trainings that need ``factor`` times the estimate; those of more than the GPU has crash."""
    cases = list(product((32, 48, 64, 96, 128), (2, 4, 6), (2**16, 2**17, 2**18, 2**19)))
    samples = tuple(dense("gelu", width=width, hidden=hidden, batch=batch, gpu=gpu) for width, hidden, batch in cases)
    need = np.array([factor * estimate(sample).peak for sample in samples])
    points = pd.DataFrame(
        {"layers": [f"{case}" for case in cases], "peak_memory": np.minimum(need, gpu.memory), "fits": need < gpu.memory}
    )
    return TrainingJobs(points, samples, {}), need


def test_trees_learn_what_the_estimate_lacks():
    jobs, need = trainings()
    answers = fit_peak_memory(jobs).predict(jobs.samples)
    np.testing.assert_allclose(answers.peak, need, rtol=0.02)
    assert (answers.low <= answers.peak).all() and (answers.peak <= answers.high).all()


def test_trainings_that_crashed_set_the_risk():
    jobs, _ = trainings(replace(GPU, memory=4 * 2**30))
    fits = jobs.points["fits"].to_numpy()
    assert 0.2 < fits.mean() < 0.95
    risk = fit_peak_memory(jobs).predict(jobs.samples).out_of_memory
    assert np.mean((risk > 0.5) != fits) > 0.95
    larger = [replace(sample, gpu=replace(GPU, memory=80 * 2**30)) for sample in jobs.samples]
    assert (fit_peak_memory(jobs).predict(larger).out_of_memory < 0.5).all()


def test_without_crashes_the_peak_decides():
    jobs, need = trainings(replace(GPU, memory=2**40))
    middle = int(np.sort(need)[len(need) // 2] * 1.01)
    small = [replace(sample, gpu=replace(GPU, memory=middle)) for sample in jobs.samples]
    answers = fit_peak_memory(jobs).predict(small)
    np.testing.assert_array_equal(answers.out_of_memory, (answers.peak > middle).astype(float))
    assert 0 < answers.out_of_memory.mean() < 1


def test_a_restored_model_answers_the_same():
    jobs, _ = trainings(replace(GPU, memory=4 * 2**30))
    model = fit_peak_memory(jobs)
    for before, after in zip(
        model.predict(jobs.samples), PeakMemory.restore(*model.state()).predict(jobs.samples), strict=True
    ):
        np.testing.assert_array_equal(before, after)


def test_too_few_networks_are_refused():
    jobs, _ = trainings()
    with pytest.raises(InputError, match=r"5 networks ran to the end; give 16 or more"):
        fit_peak_memory(jobs.only(np.arange(len(jobs.samples)) < 5))
