"""``python -m lab.evaluate detector``: the protocols, the figures by class and by confidence, and the comparison of methods."""

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epochcast.detector import METHODS
from lab.evaluate import detector as evaluate_detector
from lab.evaluate.__main__ import main as evaluate


def wave(period: float, seconds: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Busy for nine tenths of each period, at 10 Hz, with noise."""
    rng = np.random.default_rng(seed)
    time = np.arange(0, seconds, 0.1)
    return time, np.where(time % period < 0.9 * period, 0.8, 0.2) + rng.normal(0, 0.02, time.size)


def put(folder: Path, name: str, column: str, period: float, seed: int, **labels: Any) -> None:
    time, values = wave(period, 150, seed)
    pd.DataFrame({"time": 1e9 + time, column: values.clip(0, 1)}).to_csv(folder / f"{name}.csv", index=False)
    starts = (1e9 + np.arange(0, 150, period)).tolist()
    marks = {"epoch_starts": starts, "epoch_ends": [*starts[1:], 1e9 + 150], "training": True}
    (folder / f"{name}.json").write_text(json.dumps({**marks, **labels}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trainings on a GPU, one on a CPU, a step loop and noise."""
    path = tmp_path_factory.mktemp("labelled")
    put(path, "a", "dram_active", 15, 1, cls="even")
    put(path, "b", "dram_active", 12, 2, cls="even")
    put(path, "cpu", "cpu_utilization", 15, 3, cls="host")
    put(path, "loop", "dram_active", 1, 4, training=False, steps=True, epoch_starts=[], epoch_ends=[])
    time = 1e9 + np.arange(0, 150, 0.1)
    noise = np.random.default_rng(5).uniform(0, 1, time.size)
    pd.DataFrame({"time": time, "dram_active": noise}).to_csv(path / "noise.csv", index=False)
    (path / "noise.json").write_text('{"epoch_starts": [], "epoch_ends": [], "training": false}')
    return path


@pytest.fixture
def few_methods(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Methods that ``all`` stands for: the fast ones, not to wait for every change point search."""
    few = ("paper", "track", "notebook")
    monkeypatch.setattr(evaluate_detector, "METHODS", {name: METHODS[name] for name in few})
    return few


@pytest.fixture(scope="module")
def evaluated(folder: Path) -> Any:
    """What the command says of the folder, as JSON."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        assert evaluate(["detector", "--data", str(folder), "--json"]) == 0
    return json.loads(output.getvalue())


def test_the_contracts_keys_by_class_clock_and_trace(evaluated: Any) -> None:
    assert {"mape", "median_ape", "rmse", "r2", "n", "coverage", "by", "baseline_mape", "confident_wrong"} <= set(evaluated)
    assert (evaluated["n"], evaluated["n_other"], evaluated["n_step_loops"], evaluated["refused"]) == (3, 1, 1, 0)
    assert (evaluated["rmse"], evaluated["r2"]) == (None, None), "seconds of work and of the wall"
    assert set(evaluated["by"]["class"]) == {"even", "host", "other"}
    assert evaluated["by"]["class"]["even"]["n"] == 2
    assert {name: line["n"] for name, line in evaluated["by"]["clock"].items()} == {"wall": 2, "work": 1}
    assert set(evaluated["by"]["trace"]) == {"a", "b", "cpu", "loop", "noise"}
    row = evaluated["by"]["trace"]["a"]
    assert row["true_period"] == pytest.approx(15)
    assert row["baseline_period"] == pytest.approx(15, abs=0.1)
    assert row["cpu_s"] > 0
    assert [line["threshold"] for line in evaluated["confidence"]["thresholds"]] == [0.5, 0.6, 0.7, 0.8, 0.9]
    assert set(evaluated["confidence"]["reliability"]) == {"n", "ece", "bins"}


def test_methods_side_by_side(
    folder: Path, few_methods: tuple[str, ...], tmp_path: Path, lab_answer: Callable[..., Any], lab: Callable[..., str]
) -> None:
    answers = lab_answer("evaluate", "detector", "--data", folder, "--recipe", "all")
    assert [found["recipe"] for found in answers] == list(few_methods)
    assert {found["n"] for found in answers} == {3}
    assert len({found["baseline_mape"] for found in answers}) == 1
    put(tmp_path, "a", "dram_active", 15, 1)
    lines = lab("evaluate", "detector", "--data", tmp_path, "--recipe", "all").splitlines()
    assert [line.split()[1] for line in lines[1:]] == [*few_methods]


def test_several_corpora_may_hold_runs_of_one_name(tmp_path: Path, lab_answer: Callable[..., Any]) -> None:
    for gpu, period in (("t4", 15), ("l4", 12)):
        (tmp_path / gpu).mkdir()
        put(tmp_path / gpu, "run", "dram_active", period, 1)
    data = [f"--data={tmp_path / gpu}" for gpu in ("t4", "l4")]
    found = lab_answer("evaluate", "detector", *data)
    assert found["n"] == 2
    assert set(found["by"]["trace"]) == {str(tmp_path / gpu / "run") for gpu in ("t4", "l4")}


def test_a_refusal_is_no_answer_and_its_reason_is_there(folder: Path, lab_answer: Callable[..., Any]) -> None:
    found = lab_answer("evaluate", "detector", "--data", folder, "--recipe", "paper", "--clock", "work")
    assert found["refused"] == 4
    assert "the work clock needs" in found["by"]["trace"]["a"]["reason"]
    assert found["by"]["trace"]["cpu"]["reason"] is None


def test_a_method_that_refuses_every_trace_is_bad_input(tmp_path: Path, lab: Callable[..., str]) -> None:
    put(tmp_path, "a", "dram_active", 15, 1)
    assert "refused each of the 1 traces, 'a' with: the work clock needs" in lab(
        "evaluate", "detector", "--data", tmp_path, "--clock", "work", status=2
    )


def test_a_trace_without_readings_is_named(tmp_path: Path, lab: Callable[..., str]) -> None:
    put(tmp_path, "a", "dram_active", 15, 1)
    (tmp_path / "a.csv").write_text("time,dram_active\n1,\n2,\n")
    assert "none of the 1 traces can be used, 'a' because: the trace has no metric with a reading" in lab(
        "evaluate", "detector", "--data", tmp_path, status=2
    )


def test_what_cannot_be_used_is_skipped_and_counted(tmp_path: Path, lab_answer: Callable[..., Any]) -> None:
    for name in ("good", "outside", "unsorted", "words"):
        put(tmp_path, name, "dram_active", 15, 1, repo="one/job")
    (tmp_path / "outside.json").write_text('{"epoch_starts": [1, 2, 3], "epoch_ends": [2, 3, 4], "training": true}')
    lines = (tmp_path / "unsorted.csv").read_text().splitlines()
    (tmp_path / "unsorted.csv").write_text("\n".join([lines[0], *lines[:0:-1]]))
    (tmp_path / "words.json").write_text("no labels")
    found = lab_answer("evaluate", "detector", "--data", tmp_path)
    assert (found["n"], found["within_5"], found["within_5_by_repository"]) == (1, 1.0, 1.0)
    assert {skipped["name"] for skipped in found["unusable"]} == {"outside", "unsorted", "words"}
    assert all(skipped["why"] for skipped in found["unusable"])
    assert list(found["by"]["interval"]) == ["up to 0.5 s"]
    assert list(found["by"]["samples_per_epoch"]) == ["30 and more"]
    assert found["by"]["origin"]["real"]["n"] == 1


def test_a_period_that_changes_is_scored_by_its_stretches(
    tmp_path: Path, lab_answer: Callable[..., Any], lab: Callable[..., str]
) -> None:
    """Ten epochs of 15 s, then six of 30 s; next to it ten of 15 s labelled as four and six, so that one period is right."""
    lengths = np.array([15.0] * 10 + [30.0] * 6)
    starts = 1e9 + np.concatenate([[0.0], np.cumsum(lengths)])
    time = np.arange(0, lengths.sum(), 0.1)
    begun = starts[np.searchsorted(starts, 1e9 + time, side="right") - 1] - 1e9
    long = np.interp(begun, starts[:-1] - 1e9, lengths)
    level = np.where(time - begun < 0.9 * long, 0.8, 0.2) + np.random.default_rng(0).normal(0, 0.02, time.size)
    pd.DataFrame({"time": 1e9 + time, "dram_active": level.clip(0, 1)}).to_csv(tmp_path / "changes.csv", index=False)
    marks = {"epoch_starts": starts[:-1].tolist(), "epoch_ends": starts[1:].tolist(), "training": True}
    (tmp_path / "changes.json").write_text(json.dumps(marks))
    put(tmp_path, "words", "dram_active", 15, 1)
    (tmp_path / "words.json").write_text("no labels")
    regimes = lab_answer("evaluate", "detector", "--regimes", tmp_path)["regimes"]
    assert (regimes["n"], regimes["one_period_sure"], regimes["n_regimes"], regimes["stretches_right"]) == (1, 0, 1, 1)
    assert [regime["period_s"] for regime in regimes["by"]["changes"]["regimes"]] == pytest.approx([15, 30])
    assert [trace["name"] for trace in regimes["unusable"]] == ["words"]
    assert "nothing to evaluate: give --data PATH, --regimes DIR, or both" in lab("evaluate", "detector", status=2)


# MLPerf ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mlperf(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Power and events of a benchmark that dips every 40 s, twice in one system, and of one that evaluates every 4 s."""
    folder = tmp_path_factory.mktemp("mlperf")
    power, events = ["round,system,benchmark,run,source,t_ms,watts"], ["round,system,benchmark,run,t_ms,key,value"]
    for system, benchmark, run, period in (
        ("one", "slow", "r1", 40),
        ("one", "slow", "r2", 40),
        ("two", "slow", "r1", 40),
        ("two", "fast", "r1", 4),
    ):
        key = f"v4.0,{system},{benchmark},{run}"
        rng = np.random.default_rng(len(power))
        time = np.arange(0, 600, 2)
        watts = np.where(time % period < 0.8 * period, 6000, 3000) + rng.normal(0, 50, time.size)
        power += [f"{key},node_0,{1000 * t},{w:.0f}" for t, w in zip(time, watts, strict=True)]
        events += [f"{key},{1000 * t},eval_start," for t in range(period, 600, period)]
    paths = [folder / "power.csv", folder / "events.csv"]
    for path, lines in zip(paths, (power, events), strict=True):
        path.write_text("\n".join(lines) + "\n")
    return str(paths[0]), str(paths[1])


def test_mlperf_scores_cells_and_asks_for_silence_elsewhere(mlperf: tuple[str, str], lab_answer: Callable[..., Any]) -> None:
    arguments = ("--protocol", "mlperf", "--data", mlperf[0], "--events", mlperf[1])
    found = lab_answer("evaluate", "detector", *arguments)
    assert found["n"] == 3, "the period of 4 s has two samples"
    assert set(found["by"]["cell"]) == {"one/slow", "two/slow"}
    assert set(found["by"]["benchmark"]) == {"slow"}
    assert found["macro"]["cells"] == 2
    cells = found["by"]["cell"]
    assert found["macro"]["within_5"] == pytest.approx(np.mean([line["within_5"] for line in cells.values()]))
    assert found["rest"]["n"] == 1
    assert found["by"]["trace"]["one/slow/r1"]["true_period"] == pytest.approx(40)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--protocol", "mlperf", "--data", "power.csv"], "give --events FILE"),
        (["--data", ".", "--events", "events.csv"], "--events applies only to --protocol mlperf"),
        (["--protocol", "mlperf", "--data", "power.csv", "--events", "events.csv"], "no such file: 'events.csv'"),
        (["--data", ".", "--recipe", "magic"], "invalid choice: 'magic'"),
    ],
)
def test_bad_usage_is_one_sentence(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: Any, lab: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in lab("evaluate", "detector", *arguments, status=2)
