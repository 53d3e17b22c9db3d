"""All words on all GPUs, durations, and what is left to the user."""

import dataclasses
from typing import Any

import pytest
from made_graph import made_graph
from made_launches import Launch, occupancy

from epochcast.analyzer.backends.network.operators import VOCABULARY
from epochcast.analyzer.backends.occupancy.launch.calculator import occupancies
from epochcast.analyzer.backends.occupancy.launch.gpu_limits import limits_of
from epochcast.analyzer.backends.occupancy.modelled_kernels.kernels_of import kernels_of, occupancy_of
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

CATALOG = load_catalog()
LAUNCHING = tuple(word for word in VOCABULARY if word != "dropout")  # which runs in training alone
H100 = CATALOG.resolve("H100 SXM5")


def operator(word: str, scale: int = 1) -> dict[str, Any]:
    """With sizes that a convolution, a recurrent layer and an attention could all have."""
    sizes = {"read": 8 * 32 * 28 * 28 * scale, "written": 8 * 64 * 28 * 28 * scale, "weights": 64 * 32 * 9 + 64}
    features = {"input_features": 32, "output_features": 64, "kernel_height": 3, "kernel_width": 3, "stride": 1, "dilation": 1}
    return {
        "word": word,
        **sizes,
        **features,
        "groups": 1,
        "rows": 28,
        "reduced": 288,
        "heads": 4,
        "layers": 2,
        "directions": 1,
    }


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("name", ["K80", "P100 SXM2 16GB", "T4", "A10G", "H100 SXM5", "B200 SXM"])
def test_every_word_launches_what_the_gpu_can_run(name: str, precision: str) -> None:
    gpu = CATALOG[name]
    table = kernels_of(made_graph(*map(operator, LAUNCHING), batch=8), gpu, precision)
    assert occupancies(table, limits_of(gpu))["grid"].between(0, 1, inclusive="right").all()
    assert (table["duration"] > 0).all()
    assert set(table["operator"]) == set(LAUNCHING)
    measured = set(table["measured_on"])
    assert measured <= {0.0, 7.0, 8.0, 9.0} and len(measured) > 1


@pytest.mark.parametrize("word", LAUNCHING)
def test_more_samples_take_longer_and_do_not_lower_occupancy(word: str) -> None:
    steps = [occupancy_of(made_graph(operator(word, scale), batch=8 * scale), H100, "fp32") for scale in (1, 64)]
    assert steps[1].step_s * steps[1].nvml_utilisation > steps[0].step_s * steps[0].nvml_utilisation
    assert steps[1].max >= steps[0].max - 1e-9


def test_one_operator_by_hand() -> None:
    """A layer norm of 1000 rows: blocks of 32 x 4 threads, 34 registers, 24 bytes (recorded on an H100)."""
    graph = made_graph({"word": "layer_norm", "read": 256_000, "written": 256_000, "weights": 512, "reduced": 256})
    step = occupancy_of(graph, H100, "bf16")
    expected = occupancy(Launch((1000, 1, 1), (32, 4, 1), 34, 24), limits_of(H100)).grid
    assert step.mean == step.time_mean == step.max == pytest.approx(expected)
    assert (step.kernels, step.assumed) == (1, 0.0)
    assert step.nvml_utilisation == pytest.approx(step.nvml_utilisation * step.step_s / 5e-6)  # the CPU takes longer


def test_a_gpu_that_is_not_known() -> None:
    graph = made_graph(operator("relu"))
    with pytest.raises(InputError, match="compute capability"):
        kernels_of(graph, dataclasses.replace(H100, compute_capability=1.3), "fp32")


def test_a_network_that_launches_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"^made launches no kernel, so it has no occupancy; give a network that computes"):
        kernels_of(made_graph(operator("dropout")), H100, "fp32")
