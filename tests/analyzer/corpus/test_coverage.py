"""What a corpus covers and lacks, and what is learnt from it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from epochcast.analyzer.cli.corpus import _missing_lines

from epochcast.analyzer.cli import main
from epochcast.analyzer.corpus import append_run
from epochcast.analyzer.corpus.training_data import load_training_data
from epochcast.regressor import load_catalog, load_corpus
from lab.corpus.coverage import Missing

RecordRun = Callable[..., tuple[Path, Path]]
Capture = pytest.CaptureFixture[str]

GPUS = ("Tesla T4", "NVIDIA A10G", "NVIDIA L4")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, record_run: RecordRun) -> Path:
    """Six workloads of two networks on three GPUs, but for two on the L4 and one on the A10G; a CPU and an unknown GPU."""
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(6):
        name = f"{'LeNet5' if number % 2 else 'ResNet18'}|{32 + number}|64"
        for speed, gpu in enumerate(GPUS, start=1):
            if (gpu, number) not in {("NVIDIA L4", 0), ("NVIDIA L4", 5), ("NVIDIA A10G", 5)}:
                _add(
                    folder,
                    record_run,
                    name,
                    gpu,
                    epoch_s=(2.0 + number) / speed,
                    busy=0.3 + number / 10,
                    batch_size=32 + number,
                )
    _add(folder, record_run, "LeNet5|33|64", "Tesla T4", epoch_s=2.9, batch_size=33, start=1_700_000_000.0)  # a repeat
    _add(folder, record_run, "LeNet5|33|64", "AMD EPYC", source="host", batch_size=33)
    _add(folder, record_run, "LeNet5|33|64", "NVIDIA Voodoo 2", batch_size=33)
    return folder


def _add(folder: Path, record_run: RecordRun, name: str, gpu: str, *, start: float = 1_800_000_000.0, **run: object) -> None:
    workload = f"{name}|500"
    run |= {"workload": workload, "group": name.partition("|")[0]}
    append_run(folder, *record_run(folder, f"{name}|{gpu}|{start:.0f}", gpu, start=start, **run))


def test_the_report_counts_a_corpus_once_and_names_what_is_missing(corpus: Path, answered: Callable[..., Any]) -> None:
    found = answered("corpus", "report", corpus, corpus / "corpus.parquet")
    devices = {one.pop("name"): one for one in found["devices"]}
    assert found["runs"] == 18 and set(devices) == {"T4", "A10G", "L4", "AMD EPYC", "NVIDIA Voodoo 2"}
    assert (devices["T4"]["runs"], devices["T4"]["workloads"], devices["T4"]["metrics"]) == (7, 6, {"nvml": 7})
    assert devices["T4"]["epoch_s"] == pytest.approx([2.0, 7.0])
    assert devices["T4"]["busy"] == pytest.approx([0.3, 0.8], abs=0.05)
    assert (devices["AMD EPYC"]["device"], devices["AMD EPYC"]["busy"]) == ("cpu", None)
    # 0 on T4 and A10G, 5 on T4 alone; those between on three, of which one twice on the T4.
    assert found["paired"] == 5 and found["pairs"] == 2 + 3 * 6 + (6 + 4)
    assert [(one["gpu"], one["workload"]) for one in found["missing"]] == [
        ("L4", "ResNet18|32|64|500"),
        ("A10G", "LeNet5|37|64|500"),
        ("L4", "LeNet5|37|64|500"),
    ]
    assert [one["epoch_s"] for one in found["missing"]] == pytest.approx([1.5, 7.0, 7.0])
    cpu, voodoo = found["left_out"]
    assert "1 run on AMD EPYC left out: a CPU run has no GPU telemetry" in cpu and "Voodoo 2 left out: unknown GPU" in voodoo


def test_the_report_as_text(corpus: Path, printed: Callable[..., str]) -> None:
    said = printed("corpus", "report", corpus)
    assert "2.00 to 2.00 s  80 to 80 %" in said
    assert "5 of 6 workloads ran on two or more GPUs: 30 pairs to learn from" in said
    assert "missing on L4, with the epoch time elsewhere: ResNet18|32|64|500 (1.50 s), LeNet5|37|64|500 (7.00 s)" in said
    assert "accuracy on new GPUs can be evaluated (P4)" in said


def test_the_report_lists_the_ten_shortest_that_are_missing() -> None:
    eleven = tuple(Missing("L4", f"w{number}", 1.0 + number) for number in range(11))
    (some,), (all_,) = _missing_lines(eleven), _missing_lines(eleven[:10])
    assert some == f"{all_} and 1 longer one" and all_.endswith(", w9 (10.0 s)")


def test_one_gpu_alone_lacks_a_second(
    tmp_path: Path, record_run: RecordRun, printed: Callable[..., str], refused: Callable[..., str]
) -> None:
    _add(tmp_path, record_run, "LeNet5|32|32", "Tesla T4")
    said = printed("corpus", "report", tmp_path, status=1)
    assert "0 of 1 workload ran on two or more GPUs" in said and "measure the same workloads on a second GPU" in said
    said = refused("fit", "regressor", "--data", tmp_path, "--out", tmp_path / "model")
    assert "no workload of the 1 profiles ran on two GPUs (they are of T4)" in said


def test_two_gpus_and_two_workloads_are_too_few_for_each_protocol(
    tmp_path: Path, record_run: RecordRun, answered: Callable[..., Any]
) -> None:
    for gpu in GPUS[:2]:
        for batch in (32, 64):
            _add(tmp_path, record_run, f"LeNet5|{batch}|32", gpu)
    reasons = answered("corpus", "report", tmp_path)["protocols"]
    assert "2 workloads of the data ran on two GPUs" in reasons["P2"] and "needs 5" in reasons["P2"]
    assert "two or more" in reasons["P3"] and "at least 3 GPUs" in reasons["P4"]


def test_cpus_alone_teach_nothing(
    tmp_path: Path,
    record_run: RecordRun,
    answered: Callable[..., Any],
    printed: Callable[..., str],
    refused: Callable[..., str],
) -> None:
    _add(tmp_path, record_run, "LeNet5|32|32", "AMD EPYC", source="host")
    report = answered("corpus", "report", tmp_path, status=1)
    assert set(report["protocols"].values()) == {"no run is on a GPU in the catalogue"}
    assert "cannot be evaluated (P2, P3, P4): no run is on a GPU" in printed("corpus", "report", tmp_path, status=1)
    said = refused("fit", "regressor", "--data", tmp_path, "--out", tmp_path / "model")
    assert "has no usable run: 1 run on AMD EPYC left out: a CPU" in said


@pytest.mark.usefixtures("few_trees")
def test_train_evaluate_and_calibrate_on_corpora(corpus: Path, tmp_path: Path, record_run: RecordRun, capsys: Capture) -> None:
    more = tmp_path / "more"
    _add(more, record_run, "ResNet18|32|64", "NVIDIA L4", epoch_s=0.7)
    model, data = tmp_path / "model", ["--data", str(corpus), "--data", str(more)]
    assert main(["fit", "regressor", *data, "--out", str(model), "--json"]) == 0
    streams = capsys.readouterr()
    answer = json.loads(streams.out)
    once, _ = load_training_data([corpus], load_catalog())
    assert load_training_data([corpus, corpus / "corpus.parquet"], load_catalog())[0] == once
    assert (answer["rows"], answer["gpus"]) == (17, ["A10G", "L4", "T4"])
    assert streams.err.count("left out") == 2 == streams.err.count("\n")
    assert main(["evaluate", "regressor", "--data", str(corpus), "--protocol", "P4", "--recipe", "prior", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == len(_pairs_into_each(corpus))
    for number in range(6):
        for gpu in ("NVIDIA H100 80GB HBM3", "Tesla T4"):
            _add(tmp_path / "new", record_run, f"LeNet5|{number}|32", gpu, epoch_s=(2.0 + number) / (9 if "H100" in gpu else 1))
    arguments = ["calibrate", str(model), "--data", str(tmp_path / "new"), "--out", str(tmp_path / "calibrated"), "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == {"rows": 12, "gpus": {"H100 SXM5": 6}}
    assert main(["evaluate", "detector", "--data", str(corpus), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 18


def _pairs_into_each(corpus: Path) -> list[tuple[str, str]]:
    profiles = [profile for profile in load_corpus(corpus) if profile.gpu in ("T4", "A10G", "L4")]
    return [(a.gpu, b.gpu) for a in profiles for b in profiles if a.workload == b.workload and a.gpu != b.gpu]
