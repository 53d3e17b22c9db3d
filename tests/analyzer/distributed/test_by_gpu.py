"""Protocol ``gpu``: what is read, left out and compared."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.backends.distributed.graph import Operator, Tensor
from epochcast.analyzer.backends.distributed.operator_time.corpus import CORPUS_COLUMNS
from epochcast.analyzer.backends.distributed.operator_time.evaluation import EndToEnd, evaluate_by_gpu, read_end_to_end
from epochcast.analyzer.backends.distributed.operator_time.roofline import Roofline
from epochcast.analyzer.backends.distributed.operator_time.shapes import SHAPE_COLUMNS, product_row
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

CATALOG = load_catalog()
GPUS = ("A100 PCIe 40GB", "V100 PCIe 32GB", "T4")
SLOWER = 1.2


def corpus(gpu: str) -> pd.DataFrame:
    rng = np.random.default_rng(len(gpu))
    rows = [product_row(1, *(int(2 ** rng.uniform(8, 13)) for _ in "mnk"), "float32") for _ in range(120)]
    table = pd.DataFrame(rows, columns=list(SHAPE_COLUMNS))
    of = CATALOG[gpu]
    ideal = np.maximum(table["flops"] / (of.fp32_flops or 1.0), table["bytes"] / of.memory_bandwidth)
    return table.assign(gpu=gpu, op="x", seconds=SLOWER * ideal + 2e-5, **{"pass": "forward"})[list(CORPUS_COLUMNS)]


def run_of(model: str, batch: int, sequence_length: int, training: bool) -> Sequence[Operator]:
    m, n, k = batch * sequence_length, 2048, 2048
    inputs, output = (Tensor((m, k), "float32"), Tensor((k, n), "float32")), Tensor((m, n), "float32")
    one = Operator("aten.mm.default", "matmul", "forward", inputs, (output,), flops=2.0 * m * n * k)
    return (one,) * (3 if training else 1)


def measured(gpus: Sequence[str]) -> EndToEnd:
    rows = [
        {"gpu": gpu, "model": "m", "batch": 4, "sequence_length": 1024, "mode": mode, "neusight": 1.0}
        | {"seconds": SLOWER * Roofline(CATALOG[gpu]).seconds(run_of("m", 4, 1024, mode == "training")).sum()}
        for gpu in gpus
        for mode in ("inference", "training")
    ]
    return EndToEnd(pd.DataFrame(rows), {"several GPUs": 2})


def test_each_gpu_is_predicted_from_the_others_and_again_with_probes() -> None:
    found = evaluate_by_gpu(pd.concat([corpus(gpu) for gpu in GPUS]), measured(GPUS), run_of, CATALOG, probe=5, draws=3)
    summary = found.summary()
    assert summary["n"] == 6
    assert summary["coverage"] == pytest.approx(6 / 8)
    assert set(summary["by"]) == {f"{gpu} {mode}" for gpu in GPUS for mode in ("inference", "training")}
    methods = summary["methods"]
    assert methods["roofline"]["mape"] == pytest.approx(100 * (1 - 1 / SLOWER))
    assert methods["zero"]["mape"] < 12
    assert methods["probe"]["mape"] < 12
    assert summary["mape"] == methods["probe"]["mape"]
    assert methods["probe"]["sd"] >= 0
    assert set(found.operators["gpu"]) == set(GPUS)


def test_a_gpu_is_never_trained_on() -> None:
    """Were its own operators used, a GPU of another law would be predicted rightly."""
    odd = corpus("T4").assign(seconds=lambda table: 10 * table["seconds"])
    both = pd.concat([corpus("A100 PCIe 40GB"), corpus("V100 PCIe 32GB"), odd])
    found = evaluate_by_gpu(both, measured(["T4"]), run_of, CATALOG)
    assert found.operators.set_index("gpu").loc["T4", "zero_median"] > 80
    assert found.summary()["mape"] < 12


def test_a_gpu_without_operators_has_no_probe_and_is_not_covered() -> None:
    own = pd.concat([corpus("A100 PCIe 40GB"), corpus("V100 PCIe 32GB")])
    summary = evaluate_by_gpu(own, measured(["T4"]), run_of, CATALOG, probe=5, draws=2).summary()
    assert summary["n"] == 0 and summary["coverage"] == 0
    assert summary["methods"]["zero"]["n"] == 2


def test_the_public_file_is_read_and_counted(shared_data: Path) -> None:
    found = read_end_to_end(shared_data / "distributed" / "neusight_end_to_end.csv", CATALOG, ["bert_large", "gpt2_large"])
    assert set(found.rows["model"]) == {"bert_large", "gpt2_large"}
    assert len(found.rows) + sum(found.left_out.values()) == 88
    assert found.left_out["several GPUs"] == 3
    assert found.rows["seconds"].max() < 10


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("model_name\nx\n")
    with pytest.raises(InputError, match="lacks the column seqlen"):
        read_end_to_end(tmp_path / "a.csv", CATALOG, [])
    with pytest.raises(InputError, match="cannot read"):
        read_end_to_end(tmp_path / "none.csv", CATALOG, [])


def test_traced_workloads_hold_what_was_measured() -> None:
    pytest.importorskip("torch")
    from epochcast.analyzer.backends.distributed.operator_time.neusight_workloads import operators_of

    bert = operators_of("bert_large", 2, 128, False)
    assert {operator.phase for operator in bert} == {"forward"}
    assert not any("dropout" in operator.name for operator in bert)
    assert not any(30522 in tensor.shape for operator in bert for tensor in operator.outputs)
    trained = operators_of("gpt2_large", 2, 128, True)
    assert sum("tanh.default" in operator.name for operator in trained) == 36
    assert any("dropout" in operator.name for operator in trained)
    assert any(operator.phase == "backward" for operator in trained)
    assert not any(operator.phase == "forward" and "log_softmax" in operator.name for operator in trained)


def test_our_roofline_of_the_traced_models_is_the_published_one(shared_data: Path) -> None:
    """A slip in a model's dimensions or operators would show: theirs counts the same work by formulas of its own."""
    pytest.importorskip("torch")
    from epochcast.analyzer.backends.distributed.operator_time.neusight_workloads import NAMES, operators_of

    raw = pd.read_csv(shared_data / "distributed" / "neusight_end_to_end.csv")
    rows = raw[
        raw["roofline_all_e2e_latency"].notna() & raw["model_name"].isin(NAMES) & raw["device"].str.contains("A100|V100")
    ]
    assert len(rows) == 21
    for row in rows.to_dict("records"):
        run = operators_of(row["model_name"], row["batch"], row["seqlen"], row["mode"] == "train")
        ours = Roofline(CATALOG.resolve(row["device"])).seconds(run).sum() * 1e3
        assert ours == pytest.approx(row["roofline_all_e2e_latency"], rel=0.06), (row["model_name"], row["mode"])
