"""Options that had another name in one of two commands: both names work in both, and the old one says what to write."""

import json
from pathlib import Path

import pandas as pd
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.traces.trace import Trace, write_trace
from epochcast.detector.simulator import simulate


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one simulated training run on a T4."""
    run = simulate(seed=1, epochs=6, epoch_s=6.0)
    trace = Trace(pd.DataFrame({"time": run.time, **run.metrics}), gpu="Tesla T4", source="replay", simulated=True)
    folder = tmp_path_factory.mktemp("traces")
    write_trace(trace, folder / "t4.parquet")
    return folder


@pytest.fixture(scope="module")
def profile(traces: Path) -> str:
    path = traces.parent / "t4.json"
    assert main(["profile", str(traces / "t4.parquet"), "--out", str(path)]) == 0
    return str(path)


@pytest.mark.parametrize(("options", "market"), [((), "on-demand"), (("--spot",), "spot")])
def test_recommend_takes_the_market(
    options: tuple[str, ...], market: str, profile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recommend", profile, "--json", *options]) == 0
    assert json.loads(capsys.readouterr().out)["market"] == market


def test_fleet_analyze_takes_the_market(traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pebble")
    assert main(["fleet", "analyze", str(traces), "--out", str(tmp_path), "--processes", "1", "--json", "--spot"]) == 0
    assert json.loads(capsys.readouterr().out)["market"] == "spot"


@pytest.mark.parametrize("option", ["--method", "--recipe"])
def test_detect_takes_both_names(option: str, traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["detect", str(traces), option, "autocorrelation", "--json"]) in (0, 1)
    captured = capsys.readouterr()
    assert json.loads(captured.out)["method"] == "autocorrelation"
    assert ("epochcast: --recipe is now --method; the old name still works\n" in captured.err) == (option == "--recipe")


@pytest.mark.parametrize("option", ["--method", "--recipe"])
def test_evaluate_detector_takes_both_names(option: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(root / "data" / "cpu_demo")
    assert main(["evaluate", "detector", "--data", data, option, "autocorrelation", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recipe"] == "autocorrelation"


def test_one_of_both_names_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["detect", "run.parquet", "--method", "track", "--recipe", "paper"]) == 2
    assert capsys.readouterr().err == "epochcast: --recipe is the old name of --method; give --method alone\n"


@pytest.mark.parametrize(
    ("command", "old"),
    [
        (["detect"], "--recipe"),
        (["evaluate", "detector"], "--recipe"),
    ],
)
def test_old_names_are_not_in_the_help(command: list[str], old: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    assert old not in capsys.readouterr().out
