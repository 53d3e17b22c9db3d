"""All words on all GPUs, durations, and what is left to the user."""

import dataclasses
from typing import Any

import pytest
from made_graph import made_graph

from epochcast.analyzer.backends.network.operators import VOCABULARY
from epochcast.analyzer.backends.occupancy.modelled_kernels.launches import model_launches, model_sm_use
from epochcast.analyzer.backends.occupancy.modelled_kernels.occupancy import limits_of
from epochcast.analyzer.backends.occupancy.modelled_kernels.operator import Target
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from lab.kernels.occupancies import occupancies

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
    table = model_launches(made_graph(*map(operator, LAUNCHING), batch=8), Target(gpu, precision))
    assert occupancies(table, limits_of(gpu))["grid"].between(0, 1, inclusive="right").all()
    assert (table["duration"] > 0).all()
    assert set(table["operator"]) == set(LAUNCHING)


def test_one_operator_by_hand() -> None:
    """A layer norm of 1000 rows: blocks of 32 x 4 threads, 34 registers, 24 bytes (recorded on an H100)."""
    graph = made_graph({"word": "layer_norm", "read": 256_000, "written": 256_000, "weights": 512, "reduced": 256})
    use = model_sm_use(graph, Target(H100, "bf16"))
    (row,) = model_launches(graph, Target(H100, "bf16")).to_dict("records")
    expected = 1000 / 132 * 4 / 64  # 132 SMs have room for 12 blocks each by their registers; of 64 warps a block has four
    assert use.active == pytest.approx(row["duration"] / 30e-6)  # the CPU takes longer
    assert use.occupancy == pytest.approx(expected * use.active)


def test_a_gpu_that_is_not_known() -> None:
    graph = made_graph(operator("relu"))
    with pytest.raises(InputError, match="compute capability"):
        model_launches(graph, Target(dataclasses.replace(H100, compute_capability=1.3), "fp32"))


def test_a_network_that_launches_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"^made launches no kernel, so it has no occupancy; give a network that computes"):
        model_launches(made_graph(operator("dropout")), Target(H100, "fp32"))
