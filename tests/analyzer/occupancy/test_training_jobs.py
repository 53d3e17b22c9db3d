"""Networks rebuilt from lists of layers, and trainings that DCGM measured."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.backends.occupancy.graph.computation_graph import EDGE_TYPES, ComputationGraph
from epochcast.analyzer.backends.occupancy.graph.from_layers import ListedLayer, graph_of_layers
from epochcast.analyzer.backends.occupancy.training_jobs import GPU, read_training_jobs
from epochcast.analyzer.cli import main
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

CATALOG = load_catalog()


def convolution(inputs: int, outputs: int, side: int, kernel: int = 3) -> ListedLayer:
    return ListedLayer("conv2d", outputs * side**2, outputs * (inputs * kernel**2 + 1))


def activation(outputs: int, side: int, kind: str = "ReLU") -> ListedLayer:
    return ListedLayer(kind, outputs * side**2, 0)


def ends(channels: int, classes: int) -> list[ListedLayer]:
    return [ListedLayer("adaptive_avg_pool2d", channels, 0), ListedLayer("linear", classes, classes * (channels + 1))]


def forward_edges(graph: ComputationGraph) -> set[tuple[int, int]]:
    kept = graph.edges[:, graph.edge_types != EDGE_TYPES.index("backward")]
    return {(int(source), int(target)) for source, target in kept.T}


def test_a_chain_is_read_one_layer_after_the_other() -> None:
    layers = [convolution(3, 8, 10), activation(8, 10), convolution(8, 16, 10), *ends(16, 5)]
    graph = graph_of_layers("chain", layers, "uniform", 3, 10, batch=4)
    assert graph.words == ("convolution", "relu", "convolution", "average_pool", "linear")
    assert forward_edges(graph) == {(0, 1), (1, 2), (2, 3), (3, 4)}
    assert graph.column("input_features").tolist() == [3, 0, 8, 0, 16]
    assert graph.column("flops")[[0, 2]].tolist() == [2 * 4 * 27 * 8 * 100, 2 * 4 * 72 * 16 * 100]
    assert graph.column("read")[2] == 4 * 8 * 100
    assert graph.weight_elements == 8 * 28 + 16 * 73 + 5 * 17


def test_gradients_go_back_along_every_edge() -> None:
    graph = graph_of_layers("chain", [convolution(3, 8, 10), activation(8, 10), *ends(8, 5)], "uniform", 3, 10, batch=2)
    back = graph.edge_types == EDGE_TYPES.index("backward")
    assert back.sum() == len(back) / 2
    assert {(int(b), int(a)) for a, b in graph.edges[:, back].T} == forward_edges(graph)
    assert sorted(graph.edge_elements[back]) == sorted(graph.edge_elements[~back])


def test_a_shortcut_reads_the_block_s_input_and_is_added_to_its_answer() -> None:
    layers = [
        *(convolution(4, 8, 6, 1), convolution(4, 8, 6), activation(8, 6), convolution(8, 8, 6), activation(8, 6)),
        *(convolution(8, 8, 6), activation(8, 6), convolution(8, 8, 6), activation(8, 6)),  # an identity beside it
        *(convolution(8, 16, 3, 1), convolution(8, 16, 3), activation(16, 3), convolution(16, 16, 3), activation(16, 3)),
        *ends(16, 5),
    ]
    graph = graph_of_layers("residual", layers, "residual", 4, 6, batch=1)
    edges = forward_edges(graph)
    read_by = {target: {source for source, own in edges if own == target} for target in range(len(graph))}
    assert read_by[1] == set() and read_by[3] == {2}  # the first convolution reads the image, the second what comes before it
    assert read_by[5] == {4, 0}  # the sum of the block's answer and its shortcut
    assert read_by[7] == {6}
    assert read_by[9] == read_by[10] == {8, 4, 0}  # and of the next one's answer and its own input
    assert read_by[14] == {13, 9}
    assert graph.column("stride")[[9, 10]].tolist() == [2, 2]


def test_a_dense_block_reads_all_that_was_made_in_it() -> None:
    layers = [convolution(3, 32, 8), activation(32, 8), convolution(35, 32, 8), activation(32, 8), convolution(67, 33, 8, 1)]
    layers += [convolution(33, 32, 4), activation(32, 4), *ends(65, 5)]
    graph = graph_of_layers("dense", layers, "dense", 3, 8, batch=1)
    edges = forward_edges(graph)
    assert {source for source, target in edges if target == 2} == {1}
    assert {source for source, target in edges if target == 4} == {1, 3}
    assert {source for source, target in edges if target == 5} == {4}
    assert {source for source, target in edges if target == 6} == {5}
    assert {source for source, target in edges if target == 8} == {5, 7}
    assert graph.column("input_features")[[0, 2, 4, 6]].tolist() == [3, 35, 67, 33]
    assert (graph.words[5], graph.column("read")[5], graph.column("written")[5]) == ("average_pool", 33 * 64, 33 * 16)
    assert (graph.words[8], graph.column("read")[8], graph.column("written")[8]) == ("average_pool", 65 * 16, 65)


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (
            [ListedLayer("conv2d", 800, 225), *ends(8, 5)],
            "convolution 1 writes 800 elements with 225 parameters, which fits no",
        ),
        ([convolution(3, 8, 10), ListedLayer("linear", 5, 42)], "a dense layer of 5 features has 42 parameters"),
        ([convolution(3, 8, 10), ListedLayer("fft", 5, 0)], "a layer of kind 'fft'; known are conv2d"),
        ([], "no operator that computes something"),
    ],
)
def test_what_fits_no_network_is_refused(layers: list[ListedLayer], words: str) -> None:
    with pytest.raises(InputError, match=words):
        graph_of_layers("odd", layers, "uniform", 3, 10, batch=1)


def table(path: Path, rows: int = 60) -> Path:
    """Trainings whose occupancy and memory follow from their width and batch."""
    rng = np.random.default_rng(1)
    written: list[dict[str, Any]] = []
    for number in range(rows):
        width, batch = int(rng.integers(8, 200)), int(rng.integers(2, 60))
        layers = [convolution(3, width, 16), activation(width, 16), convolution(width, width, 16), *ends(width, 10)]
        name = f"input_channels:3_num_classes:10_depth:2_arch:{'uniform' if number % 2 else 'gradual'}_base_filters:{width}"
        name += f"_batch:{batch}_input_size:16_act:relu_dropout:0.1_dropout:False_batchnorm:False"
        occupancy = 0.002 * width**0.5 * batch**0.5
        written.append(
            {
                "name": name,
                "depth": 2,
                "layers": str([tuple(layer) for layer in layers]),
                "batch": batch,
                "peak_memory_mib": 1500 + width * batch / 10,
                "gpu_utilization_percent": 50.0,
                "sm_active": min(1.0, 3 * occupancy),
                "sm_occupancy": -1.0 if number == 5 else occupancy,
                "status": "OOM_CRASH" if number == 7 else "SUCCESSFUL",
            }
        )
    written += [written[0] | {"layers": "[]"}, written[1] | {"peak_memory_mib": 0}]
    pd.DataFrame(written).to_csv(path, index=False)
    return path


def test_rows_without_network_memory_or_end_are_set_apart(tmp_path: Path) -> None:
    jobs = read_training_jobs([table(tmp_path / "jobs.csv")], CATALOG[GPU])
    assert len(jobs.samples) == 60
    assert jobs.left_out == {"without layers or memory": 2}
    assert len(jobs.labelled("sm_occupancy").samples) == 58
    assert len(jobs.labelled("peak_memory").samples) == 59
    assert [len(jobs.crashed(label).samples) for label in ("sm_occupancy", "peak_memory")] == [1, 1]
    first = jobs.points.iloc[0]
    assert first["peak_memory"] == pytest.approx((1500 + first["width"] * first["batch"] / 10) * 2**20)
    assert jobs.samples[0].graph.batch == first["batch"]


@pytest.mark.parametrize("label", ["sm_occupancy", "sm_active", "peak_memory"])
def test_labels_that_follow_from_the_network_are_learnt(tmp_path: Path, capsys: pytest.CaptureFixture[str], label: str) -> None:
    path = table(tmp_path / "jobs.csv", 200)
    assert main(["evaluate", "occupancy", "--data", str(path), "--label", label, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    recipe = "peak-memory" if label == "peak_memory" else "trees"
    assert (answer["label"], answer["protocol"], answer["recipe"]) == (label, "layers", recipe)
    assert answer["mape"] < 0.7 * answer["baselines"]["mean"]["mape"]
    assert set(answer["by"]["architecture"]) == {"uniform", "gradual"}
    if label == "peak_memory":
        assert (answer["n"], answer["out_of_memory"]["crashed"], answer["out_of_memory"]["n"]) == (199, 1, 200)
        assert answer["baselines"]["trees"]["crashed"]["n"] == 1
    else:
        assert answer["crashed"]["n"] == 1


def test_two_tables_and_protocols(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = table(tmp_path / "one.csv", 120), table(tmp_path / "other.csv", 40)
    assert main(["evaluate", "occupancy", "--train", str(one), "--test", str(other), "--recipe", "nearest", "--json"]) == 0
    said = capsys.readouterr()
    answer = json.loads(said.out)
    assert (answer["protocol"], answer["n"], answer["settings"]["train_rows"]) == (None, 38, 118)
    assert "are networks of --train: no test of new networks" in said.err
    for protocol, tests in (("architecture", 2), ("depth", 0), ("width", 1)):
        status = main(["evaluate", "occupancy", "--data", str(one), "--protocol", protocol, "--recipe", "mean", "--json"])
        said = capsys.readouterr()
        if not tests:  # all are as deep
            assert status == 2
            continue
        assert status == 0
        assert len(json.loads(said.out)["by"]["test"]) == tests


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "resnet50"}, "a network named 'resnet50', which does not say its input and architecture"),
        ({"layers": "conv, relu"}, "are no list of"),
        ({"batch": "many"}, "batch"),
    ],
)
def test_broken_rows_are_refused_in_one_sentence(tmp_path: Path, change: dict[str, str], words: str) -> None:
    path = table(tmp_path / "jobs.csv", 3)
    rows = pd.read_csv(path, dtype=str)
    for column, text in change.items():
        rows.loc[1, column] = text
    rows.to_csv(path, index=False)
    with pytest.raises(InputError, match=words):
        read_training_jobs([path], CATALOG[GPU])


def test_a_label_of_such_tables_is_refused_for_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "points.csv"
    path.write_text("network,batch\nresnet18,4\n")
    assert main(["evaluate", "occupancy", "--data", str(path), "--label", "sm_active"]) == 2
    assert "--label sm_active is for tables of trainings that DCGM measured" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--plot", "scatter.png"], "take no --plot; leave it out"),
        (["--labels", "ncu", "--target", "max"], "take no --labels and no --target; leave it out"),
        (["--recipe", "modelled-launches"], "take no --recipe modelled-launches"),
        (["--recipe", "peak-memory"], "--recipe peak-memory predicts no sm_occupancy"),
        (["--protocol", "paper"], "protocol paper is for other tables"),
    ],
)
def test_options_without_a_use_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert main(["evaluate", "occupancy", "--data", str(table(tmp_path / "jobs.csv")), *options]) == 2
    assert words in capsys.readouterr().err


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "occupancy", "--data", str(tmp_path / "none.csv"), "--label", "sm_active"]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize(("file", "rows"), [("measured_cnn.csv.gz", 1392), ("measured_mlp.csv.gz", 2088)])
def test_every_measured_network_is_rebuilt_with_its_parameters(shared_data: Path, file: str, rows: int) -> None:
    path = shared_data / "occupancy" / file
    jobs = read_training_jobs([path], CATALOG[GPU])
    parameters = pd.read_csv(path).drop_duplicates("name").set_index("name")["parameters"]
    assert len(jobs.samples) == rows
    assert all(sample.graph.weight_elements == parameters[sample.configuration.network] for sample in jobs.samples)
