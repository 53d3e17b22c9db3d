"""``import epochcast`` as a notebook user has it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

import epochcast
from epochcast.analyzer.cli import main
from epochcast.analyzer.errors import InputError

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-from-python.md"
Capture = pytest.CaptureFixture[str]


def test_the_page_runs(run: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=run.parent, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "period 6." in done.stdout and "H100 SXM5" in done.stdout and "instance" in done.stdout
    assert (run.parent / "every-gpu.png").read_bytes().startswith(b"\x89PNG")


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import sys, epochcast; print(*sys.modules); epochcast.__version__"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"pandas", "numpy", "scipy", "sklearn", "click"}.isdisjoint(loaded)


def test_answers_are_those_of_the_commands(run: Path, capsys: Capture) -> None:
    job = epochcast.read(run)
    for result, command in (
        (job.epochs, ["detect", str(run)]),
        (job.predict(), ["predict", str(run)]),
        (job.recommend(epochs=90, deadline="10h"), ["recommend", str(run), "--epochs", "90", "--deadline", "36000"]),
    ):
        assert main(command) == 0
        text, notes = capsys.readouterr()
        assert repr(result) == (text + notes.replace("epochcast: ", "note: ")).rstrip("\n")


def test_results_are_tables_and_pictures(run: Path) -> None:
    job = epochcast.read(str(run))
    epochs, predictions, instances = job.epochs, job.predict("A10G"), job.recommend(objective="time", clouds=["aws"])
    assert len(epochs) == len(epochs.to_frame()) == 10 and epochs.confidence > 0.8 and epochs.unit == "epoch"
    assert epochs.to_frame()["seconds"].median() == pytest.approx(6.0, rel=0.05)
    assert predictions.to_frame()["gpu"].tolist() == ["A10G"] and len(job.predict().to_frame()) > 50
    assert set(instances.to_frame()["cloud"]) == {"aws"} and instances.verdict
    for result in (epochs, predictions, instances):
        assert "<table" in result._repr_html_() and isinstance(result.plot(), Figure)


def test_a_table_is_enough_to_find_epochs(run: Path) -> None:
    assert epochcast.detect(pd.read_parquet(run)).period_s == pytest.approx(6.0, rel=0.05)
    with pytest.raises(InputError, match="has no column 'time' in unix seconds; it has t, x"):
        epochcast.detect(pd.DataFrame({"t": [1.0], "x": [2.0]}))


def test_bad_input_is_one_sentence(run: Path) -> None:
    job = epochcast.read(run)
    with pytest.raises(InputError, match="the deadline: 'soon' is no duration"):
        job.recommend(deadline="soon")
    with pytest.raises(ValueError, match="unknown GPU 'nonsense'"):
        job.predict("nonsense")
    with pytest.raises(InputError, match="needs the path"):
        epochcast.read()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = epochcast.nothing
    assert os.fspath(run)


def test_what_it_cannot_take_is_one_sentence(run: Path) -> None:
    job = epochcast.read(run)
    assert {row.instance.cloud for row in job.recommend(clouds="aws").placements} == {"aws"}
    for objective, budget, says in (("money", None, "choose from cost, time"), ("cost", "5 USD", "give USD as a number")):
        with pytest.raises(ValueError, match=says):
            job.recommend(objective=objective, budget=budget)  # type: ignore[arg-type]
    for path in (pd.DataFrame(), [str(run)]):
        with pytest.raises(ValueError, match="read takes paths"):
            epochcast.read(path)  # type: ignore[arg-type]


def test_a_job_shows_what_it_is(run: Path) -> None:
    assert repr(epochcast.read(run)) == f"{run}: T4 (simulated), 6.13 s per epoch"
    assert {"read", "detect"} <= set(dir(epochcast))
    assert "<b>" in epochcast.read(run).recommend()._repr_html_()
