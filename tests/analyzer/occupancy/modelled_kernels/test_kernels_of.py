"""All words on all GPUs, durations, and what is left to the user."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from made_graph import made_graph
from made_launches import Launch, occupancy

from epochcast.analyzer.backends.occupancy.graph.vocabulary import VOCABULARY
from epochcast.analyzer.backends.occupancy.launch.gpu_limits import limits_of
from epochcast.analyzer.backends.occupancy.launch.kernel_table import with_occupancy
from epochcast.analyzer.backends.occupancy.modelled_kernels import kernels_of, occupancy_of
from epochcast.analyzer.backends.occupancy.modelled_kernels.launch_configurations import launch_configurations
from epochcast.analyzer.backends.occupancy.modelled_kernels.operator import Kernel, Target
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
    rows = with_occupancy(table, {gpu.name: limits_of(gpu)})
    assert (rows["skipped"] == "").all()
    assert rows["grid"].between(0, 1, inclusive="right").all()
    assert (rows["duration"] > 0).all()
    assert set(rows["operator"]) == set(LAUNCHING)
    measured = set(rows["measured_on"])
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


def test_repeated_launches_count() -> None:
    """Two layers of 28 steps: a copy, two products of all steps, and per step and layer a product and a kernel of gates."""
    table = kernels_of(made_graph(operator("lstm"), batch=8), H100, "fp32")
    gates = table[table["kernel"] == "recurrent_gates"]
    assert gates["count"].sum() == 2 * 28
    assert gates["measured_on"].eq(0).all()
    step = occupancy_of(made_graph(operator("lstm"), batch=8), H100, "fp32")
    rows = with_occupancy(table, {H100.name: limits_of(H100)})
    every = rows.loc[rows.index.repeat(rows["count"].astype(int))]
    assert step.kernels == len(every)
    assert step.mean == pytest.approx(every["grid"].mean())
    assert step.time_mean == pytest.approx(np.average(every["grid"], weights=every["duration"]))


def test_two_directions_launch_each_step_twice() -> None:
    """The answer is twice as wide; a step is what it was."""
    layer = operator("lstm")
    tables = [
        kernels_of(made_graph(layer | {"directions": n, "written": n * layer["written"]}, batch=8), H100, "fp32")
        for n in (1, 2)
    ]
    alone, both = (table[table["kernel"] == "recurrent_gates"] for table in tables)
    assert both["count"].tolist() == (2 * alone["count"]).tolist()
    assert both["grid_x"].tolist() == alone["grid_x"].tolist()
    assert tables[1]["count"].sum() == 2 * tables[0]["count"].sum() - 1, "the input is copied once"


@pytest.mark.parametrize(("features", "precision", "blocks"), [(64, "fp32", 2), (128, "fp32", 4), (64, "bf16", 1)])
def test_attention_has_a_block_per_head_sample_and_some_queries(features: int, precision: str, blocks: int) -> None:
    """PyTorch's memory-efficient kernel takes 64 queries of small heads and 32 of larger ones, its flash kernel 128."""
    written = 2 * 4 * 100 * features
    sizes = {"read": 3 * written, "written": written, "output_features": features, "heads": 4, "rows": 100, "reduced": 100}
    (launch,) = kernels_of(made_graph({"word": "attention", **sizes}, batch=2), H100, precision).to_dict("records")
    assert (launch["grid_x"], launch["grid_y"], launch["grid_z"]) == (blocks, 4, 2)


@pytest.mark.parametrize("computing", [0.0, 1e-4, 1e-2])
def test_a_kernel_takes_as_long_as_its_arithmetic_or_its_memory(computing: float) -> None:
    limits = limits_of(H100)
    known = launch_configurations(limits)
    configuration = known.kernels["elementwise"]
    moved = 1e-3 * H100.memory_bandwidth * known.bandwidth_share
    seconds = Target(H100, limits, "fp32", known).seconds(Kernel(configuration, (1, 1, 1), moved, computing))
    assert seconds == pytest.approx(known.shortest_kernel + max(1e-3, computing))
    assert seconds > configuration.shortest


def test_the_copy_after_attention_launches_nothing() -> None:
    copy = operator("copy") | {"strided": 1}
    alone = kernels_of(made_graph(copy), H100, "fp32")
    after = kernels_of(made_graph(operator("attention"), copy, edges=[(0, 1)]), H100, "fp32")
    assert list(alone["operator"]) == ["copy"]
    assert set(after["operator"]) == {"attention"}


def test_a_bias_is_a_kernel_of_its_own_only_where_the_traces_have_one() -> None:
    linear = {"word": "linear", "read": 64 * 256, "written": 64 * 512, "output_features": 512, "reduced": 256}
    with_bias = made_graph(linear | {"weights": 512 * 257})
    without = made_graph(linear | {"weights": 512 * 256})
    assert len(kernels_of(with_bias, H100, "fp32")) == len(kernels_of(without, H100, "fp32")) + 1
    assert len(kernels_of(with_bias, H100, "bf16")) == len(kernels_of(without, H100, "bf16"))


def test_depthwise_convolution_is_one_kernel() -> None:
    depthwise = operator("convolution") | {"groups": 32, "output_features": 32, "reduced": 9}
    table = kernels_of(made_graph(depthwise, batch=8), H100, "fp32")
    assert list(table["kernel"]) == ["depthwise_convolution"]
    assert table["grid_x"].iloc[0] == -(-(8 * 64 * 28 * 28) // 1024)


def test_channels_that_tensor_cores_cannot_take_use_none() -> None:
    graphs = [
        made_graph(operator("convolution") | {"input_features": channels, "reduced": 9 * channels}) for channels in (3, 4)
    ]
    names = [" ".join(kernels_of(graph, CATALOG.resolve("A100 SXM4 40GB"), "fp32")["kernel"]) for graph in graphs]
    assert "scudnn" in names[0] or "sgemm" in names[0]
    assert "tf32" in names[1]


def test_nearest_architecture() -> None:
    """A T4 (7.5) takes the V100's (7.0), an RTX 4090 (8.9) the A100's (8.0); what does not fit an SM is left out."""
    by_name = {name: launch_configurations(limits_of(CATALOG.resolve(name))) for name in ("K80", "T4", "RTX 4090", "B200 SXM")}
    assert by_name["T4"].architecture == 7.0
    assert by_name["RTX 4090"].architecture == 8.0
    assert by_name["B200 SXM"].architecture == 9.0
    assert by_name["K80"].architecture == 7.0
    for name, known in by_name.items():
        most = limits_of(CATALOG.resolve(name)).shared_memory_per_block
        assert all(tile.shared_memory <= most for tiles in known.tiles.values() for tile in tiles)
    assert by_name["T4"].kernels["flash_attention"].architecture == 9.0  # no other trace has it


def test_another_table_of_measured_configurations() -> None:
    text = """
[[gpu]]
architecture = 9.0
shortest_kernel = 1e-6
bandwidth_share = 0.5
strided_bandwidth_share = 0.5
[[kernel]]
name = "elementwise"
architecture = 9.0
block = [64, 1, 1]
registers_per_thread = 10
shared_memory = 0
[[kernel]]
name = "elementwise_strided"
architecture = 9.0
block = [64, 1, 1]
registers_per_thread = 10
shared_memory = 0
[[tile]]
kind = "product"
arithmetic = "fp32"
architecture = 9.0
name = "only"
rows = 8
columns = 8
alignments = [1]
block = [64, 1, 1]
registers_per_thread = 10
shared_memory = 0
"""
    configurations = launch_configurations(limits_of(H100), text)
    elements = {"word": "relu", "read": 512, "written": 512}
    table = kernels_of(made_graph(elements), H100, "fp32", configurations)
    assert table["block_x"].iloc[0] == 64
    assert table["duration"].iloc[0] == pytest.approx(1e-6 + 4096 / (0.5 * H100.memory_bandwidth))


def test_precisions_and_gpus_that_are_not_known() -> None:
    graph = made_graph(operator("relu"))
    with pytest.raises(InputError, match="precision 'int8'"):
        kernels_of(graph, H100, "int8")
    with pytest.raises(InputError, match="compute capability"):
        kernels_of(graph, dataclasses.replace(H100, compute_capability=1.3), "fp32")


def test_half_precision_halves_the_memory() -> None:
    graph = made_graph(operator("relu") | {"weights": 1e9})
    full, half = (occupancy_of(graph, H100, precision).memory_bytes for precision in ("fp32", "bf16"))
    assert full - half == pytest.approx(2e9 + 2 * graph.peak_activations)


def test_a_training_is_modelled_by_its_forward_pass() -> None:
    """The copy reads attention alone, which saves a launch; what comes back from its reader, and dropout, change nothing."""
    attention, copy = operator("attention"), operator("copy")
    wide = operator("add") | {"read": 2 * copy["written"], "weights": 0}
    dropped = operator("dropout") | {"read": copy["written"], "weights": 0}
    chain = made_graph(
        attention, copy, dropped, wide, operator("relu"), edges=[(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)], batch=8
    )
    plain = made_graph(attention, copy, wide, operator("relu"), edges=[(0, 1), (1, 2), (0, 2), (2, 3)], batch=8)
    expected = occupancy_of(plain, H100, "fp32")
    for graph in (chain, chain.in_training(), chain.at_batch(2).in_training().at_batch(8)):
        assert occupancy_of(graph, H100, "fp32") == expected
        assert kernels_of(graph, H100, "fp32").equals(kernels_of(plain, H100, "fp32"))
    assert chain.in_training().words == ("attention", "copy", "dropout", "relu")


def test_a_network_that_launches_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"^made launches no kernel, so it has no occupancy; give a network that computes"):
        kernels_of(made_graph(operator("dropout")), H100, "fp32")
