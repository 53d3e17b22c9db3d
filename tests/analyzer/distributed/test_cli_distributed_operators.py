"""Measured operators on the command line: learned from, looked up, and left out GPU by GPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

from epochcast.regressor import load_catalog

pytestmark = pytest.mark.usefixtures("shared_graphs")


GPUS = {"Tesla T4": "T4", "NVIDIA A100-PCIE-40GB": "A100 PCIe 40GB"}
SLOWER = 1.3
MODEL = "gpt:hidden=256,layers=2,heads=4,vocab=512,positions=128"


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in NeuSight's form: operators 30 % slower than the data sheet on every GPU."""
    folder, rng, catalog = tmp_path_factory.mktemp("operators"), np.random.default_rng(0), load_catalog()
    products, passes = [], []
    for device, name in GPUS.items():
        gpu = catalog[name]
        for op, batches in (("linear", (1, 1)), ("bmm", (8, 512))):
            for _ in range(60):
                b = int(rng.integers(batches[0], batches[1] + 1))
                m, n, k = (int(2 ** rng.uniform(5, 11)) for _ in "mnk")
                ideal = max(2 * b * m * n * k / (gpu.fp32_flops or 1), 4 * b * (m * k + k * n + m * n) / gpu.memory_bandwidth)
                products.append((op, 1e3 * (SLOWER * ideal + 1e-5), device, b, m, n, k))
        for op, tensors in (("ln", 2), ("softmax", 2), ("add", 3), ("gelu", 2)):
            for _ in range(30):
                rows, columns = int(2 ** rng.uniform(0, 16)), int(2 ** rng.uniform(5, 11))
                seconds = SLOWER * 4 * tensors * rows * columns / gpu.memory_bandwidth + 1e-5
                passes.append((op, 1e3 * seconds, device, rows, columns))
    pd.DataFrame(products, columns=["OPName", "Latency", "Device", *"BMNK"]).to_csv(folder / "products.csv", index=False)
    pd.DataFrame(passes, columns=["OPName", "Latency", "Device", *"BH"]).to_csv(folder / "passes.csv", index=False)
    return folder


def test_a_model_trained_on_operators_is_what_learned_uses(
    operators: Path, tmp_path: Path, answered: Callable[..., Any]
) -> None:
    answer = answered("fit", "distributed", "--operators", operators, "--out", tmp_path / "mine")
    assert answer["rows"] == 0 and answer["operators"] == {"rows": 480, "gpus": sorted(GPUS.values())}

    def seconds(*options: object) -> float:
        job = ("--model", MODEL, "--gpu", "T4", "--precision", "fp32", "--micro-batch", 8)
        return float(answered("predict-model", "distributed", *job, "--operators", *options)["seconds"])

    mine = seconds("learned", "--calibration", tmp_path / "mine")
    assert mine == pytest.approx(seconds("table", "--corpus", operators), rel=0.3), "both of these very operators"
    assert mine != pytest.approx(seconds("learned"), rel=0.01)


def test_protocol_gpu_has_every_figure_of_the_contract(
    operators: Path, tmp_path: Path, answered: Callable[..., Any], printed: Callable[..., str]
) -> None:
    measured = tmp_path / "end_to_end.csv"
    row = "bert_large,512,2,{},inf,,{},0,0,100,100\n"
    measured.write_text(
        "model_name,seqlen,batch,device,mode,option,label_all_e2e_latency,label_all_fw_latency,label_all_bwall_latency,"
        "neusight_all_e2e_latency,roofline_all_e2e_latency\n"
        + row.format("Tesla_T4", 130)
        + row.format("NoSuchGPU", 10)
        + row.replace("inf,,", "inf,tp4,").format("Tesla_T4", 130)
    )
    command = ("evaluate", "distributed", "--protocol", "gpu", "--data", measured, "--operators", operators)
    answer = answered(*command)
    assert {"mape", "median_ape", "rmse", "r2", "n", "coverage", "by"} <= set(answer)
    assert (answer["n"], answer["coverage"], answer["r2"]) == (1, pytest.approx(1 / 3), None), "of one row no R2 is known"
    assert answer["rmse"] == pytest.approx(0.130 * answer["mape"] / 100)
    assert answer["methods"]["neusight"]["mape"] == pytest.approx(100 * (1 - 100 / 130))
    text = printed(*command)
    assert "T4 inference" in text and "1 rows (GPU not in the catalogue)" in text and "softmax" in text
