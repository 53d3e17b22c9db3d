"""A folder of our own traces as training data."""

import json
from pathlib import Path

import pandas as pd
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.corpus.training_data import load_training_data
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.trace import Trace, write_trace
from epochcast.regressor import Catalog
from lab.simulator import simulate


def _write(folder: Path, name: str, gpu: str, seed: int, told: dict[str, object], suffix: str = ".parquet") -> None:
    """A simulated run, called one on ``gpu``; ``told`` without marks leaves its epochs to the detector."""
    run = simulate(seed=seed, epochs=8, epoch_s=(8.0 + seed) * (0.6 if "A10G" in gpu else 1.0))
    write_trace(Trace(pd.DataFrame({"time": run.time, **run.metrics}), gpu=gpu, simulated=True), folder / f"{name}{suffix}")
    marks = run.labels() if told.pop("labelled", True) else {}
    (folder / f"{name}.json").write_text(json.dumps(marks | told))


def test_labels_beside_traces_become_profiles(tmp_path: Path, catalog: Catalog) -> None:
    _write(tmp_path, "a", "Tesla T4", 1, {"workload": "w1", "group": "g"})
    _write(tmp_path, "b", "NVIDIA A10G", 2, {"workload": "w1", "cls": "family", "labelled": False}, ".csv")
    (labelled, detected), _ = load_training_data([tmp_path], catalog)
    assert (labelled.gpu, labelled.workload, labelled.group) == ("T4", "w1", "g")
    assert (detected.gpu, detected.workload, detected.group) == ("A10G", "w1", "family")
    assert labelled.simulated and labelled.first_epoch_excluded and labelled.epochs == 7
    assert labelled.epoch_s == pytest.approx(9.0, rel=0.15) and detected.epoch_s == pytest.approx(6.0, rel=0.15)


@pytest.mark.usefixtures("few_trees")
def test_a_model_is_trained_on_a_folder_of_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(5):
        for gpu in ("Tesla T4", "NVIDIA A10G"):
            _write(tmp_path, f"{seed}-{gpu}", gpu, seed, {"workload": f"w{seed}", "group": f"g{seed % 2}"})
    assert main(["fit", "regressor", "--data", str(tmp_path), "--out", str(tmp_path / "model"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["rows"], answer["gpus"]) == (10, ["A10G", "T4"])
    trace = str(tmp_path / "0-Tesla T4.parquet")
    assert main(["predict", trace, "--model", str(tmp_path / "model"), "--target", "A10G", "--json"]) == 0


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({}, "does not give the workload"),
        ({"workload": 3}, "workload is 3; input should be a valid string"),
        ({"workload": "w", "training": False}, "marks it as no training run; remove it"),
        ({"workload": "w", "epoch_ends": [1.0]}, "give one end per start"),
        ({"workload": "w", "group": 5}, "group is 5; input should be a valid string"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, catalog: Catalog, told: dict[str, object], message: str) -> None:
    _write(tmp_path, "good", "Tesla T4", 1, {"workload": "w"})
    _write(tmp_path, "worse", "Tesla T4", 2, dict(told))
    with pytest.raises(InputError, match=message) as raised:
        load_training_data([tmp_path], catalog)
    assert "worse" in str(raised.value)


def test_a_profile_among_traces_is_refused_rather_than_forgotten(tmp_path: Path, catalog: Catalog) -> None:
    _write(tmp_path, "trace", "Tesla T4", 1, {"workload": "w"})
    (tmp_path / "profile.json").write_text("{}")
    (tmp_path / ".hidden.csv").write_text("left by another program")
    with pytest.raises(InputError, match=r"profile\.json' has no trace next to it"):
        load_training_data([tmp_path], catalog)
    (tmp_path / "profile.json").unlink()
    assert len(load_training_data([tmp_path], catalog)[0]) == 1


def test_other_bad_files_are_named(tmp_path: Path, catalog: Catalog) -> None:
    _write(tmp_path, "trace", "Voodoo 2", 1, {"workload": "w"})
    with pytest.raises(InputError, match=r"has no usable run: 1 run on Voodoo 2 left out: unknown GPU 'Voodoo 2'"):
        load_training_data([tmp_path], catalog)
    _write(tmp_path, "trace", "Tesla T4", 1, {"workload": "w"})
    (tmp_path / "trace.json").write_text("[]")
    with pytest.raises(InputError, match=r"trace\.json' is a JSON list, not an object"):
        load_training_data([tmp_path], catalog)
    (tmp_path / "trace.json").write_text("{")
    with pytest.raises(InputError, match=r"trace\.json' is not a readable label file"):
        load_training_data([tmp_path], catalog)
    (tmp_path / "trace.json").unlink()
    with pytest.raises(InputError, match=r"trace\.parquet.*no label file .*trace\.json' next to the trace"):
        load_training_data([tmp_path], catalog)
    (tmp_path / "trace.json").write_text('{"workload": "w"}')
    pd.DataFrame({"time": [0.0, 1.0], "gpu_utilization": [0.5, 0.5]}).to_csv(tmp_path / "trace.csv", index=False)
    (tmp_path / "trace.parquet").unlink()
    with pytest.raises(InputError, match=r"trace\.csv.*does not say which GPU"):
        load_training_data([tmp_path], catalog)
    write_trace(Trace(pd.read_csv(tmp_path / "trace.csv"), gpu="T4"), tmp_path / "trace.csv")
    with pytest.raises(InputError, match=r"trace\.csv.*no epochs were found in it; give its epoch_starts"):
        load_training_data([tmp_path], catalog)
    (tmp_path / "trace.csv").write_text("hello")
    with pytest.raises(InputError, match=r"trace\.csv"):
        load_training_data([tmp_path], catalog)
