"""Networks rebuilt from lists of layers, and trainings that DCGM measured."""

import json
from pathlib import Path

import pandas as pd
import pytest
from made_trainings import activation, convolution, ends, trainings

from epochcast.analyzer.backends.occupancy import training_jobs
from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration
from epochcast.analyzer.backends.occupancy.graph.computation_graph import EDGE_TYPES, ComputationGraph
from epochcast.analyzer.backends.occupancy.graph.from_layers import ListedLayer, graph_of_layers
from epochcast.analyzer.backends.occupancy.measurement import COLUMNS, FIGURES, OUT_OF_MEMORY, SUCCESSFUL
from epochcast.analyzer.backends.occupancy.training_jobs import read_training_jobs
from epochcast.analyzer.cli import main
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

CATALOG = load_catalog()


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
        *(convolution(8, 8, 6), activation(8, 6), convolution(8, 8, 6), activation(8, 6)),  # an identity next to it
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
            "convolution 1 writes 800 elements with 225 parameters, which matches no",
        ),
        ([convolution(3, 8, 10), ListedLayer("linear", 5, 42)], "a dense layer of 5 features has 42 parameters"),
        ([convolution(3, 8, 10), ListedLayer("fft", 5, 0)], "a layer of kind 'fft'; known are conv2d"),
        ([], "no operator that computes something"),
    ],
)
def test_what_fits_no_network_is_refused(layers: list[ListedLayer], words: str) -> None:
    with pytest.raises(InputError, match=words):
        graph_of_layers("odd", layers, "uniform", 3, 10, batch=1)


def test_rows_without_network_memory_or_end_are_set_apart(tmp_path: Path) -> None:
    jobs = read_training_jobs([trainings(tmp_path / "jobs.csv")], CATALOG)
    assert len(jobs.samples) == 60
    assert jobs.left_out == {"without layers or memory": 2}
    assert len(jobs.labelled("sm_occupancy").samples) == 58
    assert len(jobs.labelled("peak_memory").samples) == 59
    assert [len(jobs.crashed(label).samples) for label in ("sm_occupancy", "peak_memory")] == [1, 1]
    first = jobs.points.iloc[0]
    assert first["peak_memory"] == pytest.approx((1500 + first["width"] * first["batch"] / 10) * 2**20)
    assert jobs.samples[0].graph.batch == first["batch"]


@pytest.mark.parametrize("label", ["sm_occupancy", "peak_memory"])
def test_labels_that_follow_from_the_network_are_learnt(tmp_path: Path, capsys: pytest.CaptureFixture[str], label: str) -> None:
    path = trainings(tmp_path / "jobs.csv", 200)
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
    one, other = trainings(tmp_path / "one.csv", 120), trainings(tmp_path / "other.csv", 40)
    assert main(["evaluate", "occupancy", "--train", str(one), "--test", str(other), "--recipe", "mean", "--json"]) == 0
    said = capsys.readouterr()
    answer = json.loads(said.out)
    assert (answer["protocol"], answer["n"], answer["settings"]["train_rows"]) == (None, 38, 118)
    assert "are networks in --train, so this tests no new networks" in said.err
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
    path = trainings(tmp_path / "jobs.csv", 3)
    rows = pd.read_csv(path, dtype=str)
    for column, text in change.items():
        rows.loc[1, column] = text
    rows.to_csv(path, index=False)
    with pytest.raises(InputError, match=words):
        read_training_jobs([path], CATALOG)


def test_other_tables_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "points.csv"
    path.write_text("network,batch\nresnet18,4\n")
    assert main(["evaluate", "occupancy", "--data", str(path), "--label", "sm_active"]) == 2
    assert "lacks the column 'channels'; give a table of trainings" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--recipe", "peak-memory"], "--recipe peak-memory predicts no sm_occupancy"),
        (["--protocol", "width", "--folds", "3"], "--folds applies only to --protocol layers"),
    ],
)
def test_options_without_a_use_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert main(["evaluate", "occupancy", "--data", str(trainings(tmp_path / "jobs.csv")), *options]) == 2
    assert words in capsys.readouterr().err


def test_trainings_of_one_s_own_gpu_are_read_by_the_names_of_their_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `epochcast measure occupancy` writes them."""
    layers = [convolution(3, 8, 10), activation(8, 10), *ends(8, 5)]

    def graph_of(configuration: NetworkConfiguration) -> ComputationGraph:
        return graph_of_layers(configuration.network, layers, "uniform", 3, 10, configuration.batch)

    monkeypatch.setattr(training_jobs, "graph_of", graph_of)
    row = dict.fromkeys(COLUMNS, 0) | {"network": "lenet", "batch": 4, "precision": "fp32", "gpu": "L4"}
    ran = row | {
        "peak_memory_mib": 700,
        "gpu_utilization_percent": 50,
        "sm_active": 0.4,
        "sm_occupancy": -1,
        "status": SUCCESSFUL,
    }
    crashed = row | dict.fromkeys(FIGURES, -1) | {"batch": 4096, "status": OUT_OF_MEMORY}
    pd.DataFrame([ran, crashed]).to_csv(tmp_path / "own.csv", index=False)
    jobs = read_training_jobs([tmp_path / "own.csv"], CATALOG)
    assert jobs.points["gpu"].tolist() == ["L4", "L4"] and [sample.graph.batch for sample in jobs.samples] == [4, 4096]
    assert jobs.points["fits"].tolist() == [True, False] and jobs.points["architecture"].tolist() == ["lenet", "lenet"]
    assert [len(jobs.labelled(label).samples) for label in ("sm_occupancy", "sm_active", "peak_memory")] == [0, 1, 1]
    assert jobs.points["peak_memory"].isna().tolist() == [False, True]


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "occupancy", "--data", str(tmp_path / "none.csv"), "--label", "sm_active"]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.parametrize(("file", "rows"), [("measured_cnn.csv.gz", 1392), ("measured_mlp.csv.gz", 2088)])
def test_every_measured_network_is_rebuilt_with_its_parameters(shared_data: Path, file: str, rows: int) -> None:
    path = shared_data / "occupancy" / file
    jobs = read_training_jobs([path], CATALOG)
    parameters = pd.read_csv(path).drop_duplicates("name").set_index("name")["parameters"]
    assert len(jobs.samples) == rows
    assert all(sample.graph.weight_elements == parameters[sample.configuration.network] for sample in jobs.samples)
