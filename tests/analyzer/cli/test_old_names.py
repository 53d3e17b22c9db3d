"""Old names of options and commands: they work, and say what to write."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from epochcast.analyzer.cli import main


@pytest.mark.parametrize("option", ["--method", "--recipe"])
def test_detect_and_evaluate_detector_take_both_names(
    option: str, run: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, key in (
        (["detect", run], "method"),
        (["evaluate", "detector", "--data", root / "data" / "cpu_demo"], "recipe"),
    ):
        assert main([*map(str, command), option, "autocorrelation", "--json"]) in (0, 1)
        captured = capsys.readouterr()
        assert json.loads(captured.out)[key] == "autocorrelation"
        assert ("epochcast: --recipe is now --method; the old name still works\n" in captured.err) == (option == "--recipe")


def test_one_of_both_names_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["detect", "run.parquet", "--method", "track", "--recipe", "paper"]) == 2
    assert capsys.readouterr().err == "epochcast: --recipe is the old name of --method; give --method alone\n"


def test_old_names_are_not_in_the_help(text: Callable[..., str]) -> None:
    for command in (["detect"], ["evaluate", "detector"]):
        assert "--recipe" not in text(*command, "--help")


@pytest.mark.parametrize(("old", "new"), [("train", "fit"), ("benchmark", "measure")])
def test_verbs_have_old_names(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([old, "convmeter", "--help"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(f"Usage: epochcast {new} convmeter ")
    assert captured.err == f"epochcast: `epochcast {old}` is now `epochcast {new}`; the old name still works\n"
