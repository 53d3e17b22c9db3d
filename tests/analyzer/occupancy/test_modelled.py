"""All words on all GPUs, one operator by hand, and what is refused."""

import dataclasses
from typing import Any

import pytest
from made_graph import made_graph

from epochcast.analyzer.backends.network.operators import VOCABULARY
from epochcast.analyzer.backends.occupancy.modelled import model_sm_use
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

CATALOG = load_catalog()
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
def test_every_word_keeps_every_gpu_partly_full(name: str, precision: str) -> None:
    for word in VOCABULARY:
        if word != "dropout":  # which runs in training alone
            use = model_sm_use(made_graph(operator(word), batch=8), CATALOG[name], precision)
            assert 0 < use.occupancy <= use.active <= 1, word


def test_one_operator_by_hand() -> None:
    """A sum in 16 bits: 500 blocks of 4 warps on 132 SMs of 64; an SM has room for all of its own."""
    graph = made_graph({"word": "add", "read": 512_000, "written": 256_000})
    use = model_sm_use(graph, H100, "bf16")
    seconds = 4e-6 + 2 * 768_000 / (0.85 * H100.memory_bandwidth)
    assert use.active == pytest.approx(seconds / 30e-6)  # the CPU takes longer
    assert use.occupancy == pytest.approx(500 / 132 * 4 / 64 * use.active)


def test_products_keep_an_sm_less_full_than_sums() -> None:
    large = [model_sm_use(made_graph(operator(word, 1000), batch=8), H100, "bf16") for word in ("linear", "relu")]
    assert [use.active for use in large] == [1, 1]
    assert large[0].occupancy == pytest.approx(12 / 64)  # 168 registers a thread: two warps in each quarter, three blocks
    assert large[1].occupancy == 1


def test_a_gpu_that_is_not_known() -> None:
    with pytest.raises(InputError, match="compute capability"):
        model_sm_use(made_graph(operator("relu")), dataclasses.replace(H100, compute_capability=1.3), "fp32")


def test_a_network_that_launches_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"^made launches no kernel, so it has no occupancy; give a network that computes"):
        model_sm_use(made_graph(operator("dropout")), H100, "fp32")
