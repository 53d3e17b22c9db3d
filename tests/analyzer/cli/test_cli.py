"""The command line as a user meets it: answers, exit codes, and one sentence for every kind of bad input."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.traces.trace import Trace, write_trace
from epochcast.detector.simulator import simulate


@pytest.fixture(scope="module")
def gpu_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated training run on a T4, as a Parquet trace."""
    run = simulate(seed=1, epochs=6, epoch_s=6.0)
    trace = Trace(pd.DataFrame({"time": run.time, **run.metrics}), gpu="Tesla T4", source="replay", simulated=True)
    return write_trace(trace, tmp_path_factory.mktemp("traces") / "t4.parquet")


@pytest.fixture(scope="module")
def gpu_profile(gpu_trace: Path) -> Path:
    """What `epochcast profile` makes of it: a source whose epochs need not be looked for again."""
    profile = gpu_trace.with_suffix(".json")
    assert main(["profile", str(gpu_trace), "--out", str(profile)]) == 0
    return profile


def _answer(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> dict:
    assert main([*arguments, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def test_detect_gives_the_contracts_keys(gpu_trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = _answer(capsys, "detect", str(gpu_trace))
    assert {"verdict", "period_s", "epochs", "confidence", "method", "clock", "step_s", "jobs"} <= set(answer)
    assert answer["verdict"] == "epochs"
    assert answer["clock"] == "wall"
    assert set(answer["epochs"][0]) == {"start", "end", "confidence"}
    assert {"reason", "samples_per_epoch", "stretches"} <= set(answer)
    assert answer["first_sample"] == pd.read_parquet(gpu_trace)["time"].iloc[0]


@pytest.mark.parametrize(("method", "suffix"), [("track", ".png"), ("paper", ".svg")])
def test_detect_draws(gpu_trace: Path, tmp_path: Path, method: str, suffix: str) -> None:
    plot = tmp_path / f"run{suffix}"
    assert main(["detect", str(gpu_trace), "--method", method, "--plot", str(plot)]) in (0, 1)
    assert plot.stat().st_size > 5000


def test_detect_reads_standard_input(gpu_trace: Path) -> None:
    csv = pd.read_parquet(gpu_trace).to_csv(index=False)
    done = subprocess.run(
        [sys.executable, "-m", "epochcast.analyzer", "detect", "-", "--json"],
        input=csv,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "epochs"


@pytest.mark.parametrize(
    ("before", "redirection", "status", "says"),
    [
        ("", ">&-", 0, ""),
        ("", ">/dev/full", 2, "No space left on device"),
        ("exec 3> >(:); wait $!", ">&3", 1, ""),  # a pipe whose reader is gone
    ],
)
def test_output_that_nobody_takes_is_no_traceback(before: str, redirection: str, status: int, says: str) -> None:
    script = f'{before}\n"$0" -m epochcast.analyzer gpus --json {redirection}'
    done = subprocess.run(["bash", "-c", script, sys.executable], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert says in done.stderr
    assert done.stderr.count("\n") == (1 if says else 0)


def test_an_idle_trace_has_no_epochs_and_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    time = np.arange(0, 60, 0.1)
    path = write_trace(Trace(pd.DataFrame({"time": time, "gr_engine_active": np.zeros_like(time)})), tmp_path / "idle.csv")
    answer = _answer(capsys, "detect", str(path), status=1)
    assert answer["verdict"] == "none"
    assert answer["period_s"] is None
    assert answer["epochs"] == []


def test_predict_and_recommend_from_a_trace(gpu_trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = _answer(capsys, "predict", str(gpu_trace), "--target", "A10G", "--target", "h100 sxm5")
    assert answer["source"] == "T4"
    assert answer["unit"] == "epoch"
    assert answer["simulated"] is True
    assert [prediction["gpu"] for prediction in answer["predictions"]] == ["H100 SXM5", "A10G"]
    for prediction in answer["predictions"]:
        assert prediction["seconds"] == pytest.approx(prediction["ratio"] * answer["epoch_s"])
        assert prediction["low"] < prediction["seconds"] < prediction["high"]
    ranked = _answer(capsys, "recommend", str(gpu_trace), "--objective", "time")["recommendations"]
    assert [row["seconds"] for row in ranked] == sorted(row["seconds"] for row in ranked)
    assert all(row["price_source"] and row["price_date"] for row in ranked)


def test_a_budget_that_nothing_meets_exits_1(gpu_profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _answer(capsys, "recommend", str(gpu_profile), "--budget", "1e-9", status=1)["recommendations"] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["detect", "missing.parquet"], "no such file: 'missing.parquet'"),
        (["profile", "."], "is a folder; name a file in it"),
        (["detect", "{trace}", "--metric", "dram"], "no metric 'dram'"),
        (["detect", "{trace}", "--method", "magic"], "'magic' is not one of"),
        (["detect", "{idle}", "--plot", "nowhere/run.png"], "nowhere"),
        (["detect", "{idle}", "--plot", "run.xyz"], "run.xyz"),
        (["predict", "missing.json"], "no such profile file"),
        (["predict", "{profile}", "--target", "H100"], "H100 PCIe"),
        (["predict", "{profile}", "--target", "Voodoo 2"], "Voodoo 2"),
        (["predict", "{trace}", "--gpu", "Voodoo 2"], "Voodoo 2"),
        (["predict", "{profile}", "--model", "no-such-model"], "no-such-model"),
        (["predict", "{nameless}"], "--gpu"),
        (["predict", "{junk}"], "junk.json"),
        (["recommend", "{profile}", "--prices", "missing.csv"], "no such price file"),
        (["recommend", "{profile}", "--deadline", "-5"], "the deadline is -5"),
        (["recommend", "{profile}", "--epochs", "1" + 400 * "0"], "give 1 to 1000000000"),
        (["predict", "{trace}", "--gpu", ""], "unknown GPU ''"),
        (["predict", "{deep}"], "deep.json"),
        (["train", "regressor", "--data", "missing.csv", "--out", "model"], "missing.csv"),
        (["train", "regressor", "--data", "{nameless}", "--out", "model"], "nameless.csv"),
        (["evaluate", "regressor"], "--data"),
        (["evaluate", "regressor", "--data", "missing.csv"], "missing.csv"),
        (["evaluate", "detector", "--data", "missing"], "no such folder"),
        (["evaluate", "detector", "--data", "."], "no trace"),
        (["detect"], "Missing argument 'TRACE...'"),
        (["detect", "{trace}", "--frobnicate"], "--frobnicate"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(
    arguments: list[str],
    says: str,
    gpu_trace: Path,
    gpu_profile: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "nameless.csv").write_text("time,gr_engine_active\n1.0,0.5\n1.1,0.6\n")
    (tmp_path / "idle.csv").write_text("time,gr_engine_active\n" + "".join(f"{tick / 10},0\n" for tick in range(100)))
    (tmp_path / "junk.json").write_text("[1, 2")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    before = {path.name for path in tmp_path.iterdir()}
    monkeypatch.chdir(tmp_path)
    names = {"trace": str(gpu_trace), "profile": str(gpu_profile), "idle": "idle.csv"}
    names |= {"nameless": "nameless.csv", "junk": "junk.json", "deep": "deep.json"}
    assert main([argument.format(**names) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert {path.name for path in tmp_path.iterdir()} == before, "nothing may be left behind"


@pytest.mark.parametrize("command", ["record", "detect", "predict", "recommend", "train", "evaluate", "demo"])
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    nested = {"train": ["regressor"], "evaluate": ["regressor"]}.get(command, [])
    assert main([command, *nested, "--help"]) == 0
    assert f"epochcast {command}" in capsys.readouterr().out


def test_evaluate_regressor_by_protocol_and_by_split(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = shared_data / "black_box" / "cloud_hw_trainpred.csv"
    answer = _answer(capsys, "evaluate", "regressor", "--data", str(data), "--recipe", "prior", "--seeds", "1")
    assert {"mape", "median_ape", "rmse", "r2", "n", "coverage", "by"} <= set(answer)
    assert answer["protocol"] == "P2"
    assert 5 < answer["mape"] < 20
    rows = pd.read_csv(data)
    halves = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path, rows_of in zip(halves, (rows[rows["model"] != "VGG19"], rows[rows["model"] == "VGG19"]), strict=True):
        rows_of.to_csv(path, index=False)
    split = _answer(
        capsys, "evaluate", "regressor", "--train", str(halves[0]), "--test", str(halves[1]), "--recipe", "pair-median"
    )
    assert split["protocol"] is None
    nothing = _answer(
        capsys, "evaluate", "regressor", "--data", str(data), "--protocol", "P4", "--recipe", "pair-median", status=1
    )
    assert nothing["n"] == 0
    assert nothing["mape"] is None
    assert split["n"] < answer["n"]


def test_evaluate_detector_beside_the_trivial_answer(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = _answer(capsys, "evaluate", "detector", "--data", str(root / "data" / "cpu_demo"))
    assert {"mape", "median_ape", "n", "coverage", "by", "baseline_mape"} <= set(answer)
    assert answer["n"] == 5
    assert answer["baseline_within_5"] < answer["within_5"]


@pytest.mark.usefixtures("few_trees")
def test_train_then_predict_with_the_new_model(
    shared_data: Path, gpu_profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pd.read_csv(shared_data / "black_box" / "cloud_hw_trainpred.csv")
    few = tmp_path / "few.csv"
    rows[(rows["model"] == "MNIST_CNN") & (rows["Instances"].isin(["g4dn", "g5"]))].to_csv(few, index=False)
    model = tmp_path / "model"
    trained = _answer(capsys, "train", "regressor", "--data", str(few), "--out", str(model))
    assert trained["gpus"] == ["A10G", "T4"]
    answer = _answer(capsys, "predict", str(gpu_profile), "--model", str(model), "--target", "A10G")
    assert 0.1 < answer["predictions"][0]["ratio"] < 1


def test_ctrl_c_while_the_commands_are_loaded_is_no_traceback(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'epochcast.analyzer.cli':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from epochcast.analyzer.entry import main\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")
