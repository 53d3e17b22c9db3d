"""``python -m lab.evaluate regressor``: figures next to the baselines, files of the public format, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

GPUS = {"g4dn": 1.0, "g5": 0.5, "p3": 0.4}


def statistics(mean: float) -> dict[str, float]:
    return {"mean": mean, "std": 1.0, "min": mean - 1, "25": mean, "50": mean, "75": mean, "max": mean + 1}


def row(instance: str, batch: int, seconds: float, model: str = "VGG19") -> dict[str, object]:
    metrics = {"utilization_gpu": 60.0 + batch % 7, "utilization_memory": 30.0, "power_drawW": 60.0}
    metrics |= {"clocks_current_smMHz": 1500.0, "temperature_gpu": 50.0, "memory_usedMiB": 9e3, "memory_freeMiB": 6e3}
    columns = {f"{stem}_{name}": value for stem, mean in metrics.items() for name, value in statistics(mean).items()}
    what = {"Instances": instance, "model": model, "batchsize": 1 + batch, "datasize": 32}
    return {**what, "one_epoch_average_second": seconds, **columns}


@pytest.fixture
def table() -> pd.DataFrame:
    """Ten workloads of two models on three GPUs whose latencies stand in fixed ratios, and one on a single GPU."""
    rng = np.random.default_rng(0)
    rows = [
        row(instance, number, float(seconds * factor), f"model{number % 2}")
        for number, seconds in enumerate(rng.uniform(5, 50, 10))
        for instance, factor in GPUS.items()
    ]
    return pd.DataFrame([*rows, row("g4dn", 99, 7.0)])


def csv(table: pd.DataFrame, path: Path) -> str:
    table.to_csv(path, index=False)
    return str(path)


def test_a_recipe_stands_beside_the_baselines(
    table: pd.DataFrame, tmp_path: Path, lab_answer: Callable[..., Any], lab: Callable[..., str]
) -> None:
    data = csv(table, tmp_path / "a.csv")
    found = lab_answer("evaluate", "regressor", "--data", data, "--recipe", "pair-median")
    assert {"mape", "median_ape", "p90_ape", "rmse", "r2", "n", "coverage", "by"} <= set(found)
    assert {"inside", "wrong_order", "bias", "mape_by_group"} <= set(found)
    assert found["mape"] == pytest.approx(0, abs=1e-9) and found["n"] == 60 and found["fastest_right"] == 1
    assert found["settings"]["workloads_on_one_gpu"] == 1
    of_data_sheets = {"prior", "flops-ratio", "bandwidth-ratio", "geometric-mean", "data-sheet-ridge"}
    assert set(found["baselines"]) == {"same-latency", *of_data_sheets}
    assert all(one["n"] == 60 for one in found["baselines"].values())
    assert all(one["mape"] > 5 for name, one in found["baselines"].items() if name != "data-sheet-ridge")  # ratios are fixed
    assert found["baselines"]["same-latency"]["fastest_right"] == pytest.approx(1 / 3)  # right only from the fastest GPU
    printed = lab("evaluate", "regressor", "--data", data, "--recipe", "pair-median")
    assert "settings" in printed and "bandwidth-ratio" in printed and "V100 SXM2 16GB" in printed


def test_kept_back_rows_of_the_public_format(table: pd.DataFrame, tmp_path: Path, lab_answer: Callable[..., Any]) -> None:
    """Columns in another order, columns more, other GPUs under catalogue names, workloads on one GPU, a single pair."""
    train = csv(table, tmp_path / "train.csv")
    other = pd.DataFrame([row("p100", 5, 20.0), row("RTX 3090", 5, 11.0), row("g5", 7, 3.0)])
    other = other[sorted(other, reverse=True)].assign(uuid="GPU-1")
    asked = ("--train", train, "--test", csv(other, tmp_path / "test.csv"))
    found = lab_answer("evaluate", "regressor", *asked, "--recipe", "prior")
    assert found["n"] == 2 and found["protocol"] is None and set(found["by"]["target_gpu"]) == {"P100 PCIe 16GB", "RTX 3090"}
    assert found["settings"]["workloads_on_one_gpu"] == 1 and found["settings"]["workloads_in_both"] == 0
    assert found["fastest_n"] == 0 and found["fastest_right"] is None
    assert found["into_new_gpus"]["mape"] == found["mape"] and found["into_new_gpus"]["inside"] is None
    assert found["others"]["n"] == 0 and {*found["others"].values()} == {0, None}
    assert lab_answer("evaluate", "regressor", *asked, "--recipe", "pair-median", status=1)["coverage"] == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--data", "{data}", "--train", "{data}"], "give either --data or both"),
        (
            ["--train", "{data}", "--shipped", "--test", "{data}"],
            "give either --data or both --train (or --shipped) and --test",
        ),
        (["--shipped", "--test", "{data}", "--recipe", "paper"], "--shipped has the recipe default, not paper"),
        (["--train", "{data}"], "give either --data or both"),
        (["--train", "{data}", "--test", "{data}", "--protocol", "P2"], "--protocol splits one table"),
        (["--train", "{data}", "--test", "{data}", "--seeds", "2"], "--seeds splits one table"),
        (["--data", "{data}", "--protocol", "P9"], "unknown protocol 'P9'; known are P2, P1, P3, P4"),
        (["--data", "{data}", "--recipe", "best"], "unknown recipe 'best'"),
        (["--train", "{data}", "--test", "{alone}", "--recipe", "prior"], "no workload of the 1 profiles ran on two GPUs"),
        (["--data", "{data}", "--gpus", "none.toml"], "none.toml"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: list[str], says: str, table: pd.DataFrame, tmp_path: Path, lab: Callable[..., str]
) -> None:
    names = {"data": csv(table, tmp_path / "a.csv"), "alone": csv(table.tail(1), tmp_path / "alone.csv")}
    assert says in lab("evaluate", "regressor", *(argument.format(**names) for argument in arguments), status=2)


def test_rates_of_equal_work_get_the_default_recipe(tmp_path: Path, lab_answer: Callable[..., Any]) -> None:
    rows = [
        {
            "source": "mine",
            "group": f"m{number % 5}",
            "precision": precision,
            "gpu": gpu,
            "unit": "items/s",
            "batch": 8,
            "work": f"w{number}|{precision}",
            "rate": rate * number * (3 if precision == "mixed" else 1),
        }
        for number in range(1, 11)
        for precision in ("single", "mixed", "fp8", "fp32")
        for gpu, rate in {"T4": 1.0, "A10G": 2.0, "A100 SXM4 40GB": 5.0}.items()
    ]
    table = pd.DataFrame(rows)
    known, new = csv(table, tmp_path / "a.csv"), csv(table.replace("A10G", "B300 SXM"), tmp_path / "b.csv")
    found = lab_answer("evaluate", "regressor", "--data", known, "--protocol", "P3")
    assert found["recipe"] == "default" and found["n"] == 10 * 4 * 6 and found["mape"] < 5
    for fitted in (("--train", known), ("--shipped",)):
        other = lab_answer("evaluate", "regressor", *fitted, "--test", new)
        assert set(other) == set(found) >= {"half_width", "bias"} and other["settings"]["test_profiles"] == 10 * 4 * 3
        assert set(other["by"]["precision"]) == {"fp32", "tf32", "mixed", "fp8"}
        assert [other[part]["n"] for part in ("into_new_gpus", "others")] == [10 * 4 * 2, 10 * 4 * 4]
        assert {"n", "mape", "median_ape", "inside", "wrong_order"} <= set(other["others"])
