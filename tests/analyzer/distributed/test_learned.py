"""The learned operator model: what it recovers, carries over to other GPUs and keeps on disk."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hand_made import product
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.fitted_model import DistributedModel
from epochcast.analyzer.backends.distributed.graph import Operator, Tensor
from epochcast.analyzer.backends.distributed.operator_time.corpus import CORPUS_COLUMNS
from epochcast.analyzer.backends.distributed.operator_time.learned import Board, LearnedTimes, OperatorModel, distance
from epochcast.analyzer.backends.distributed.operator_time.shapes import SHAPE_COLUMNS, pass_row, product_row, shapes_of
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from lab.distributed import boosting
from lab.distributed.fitting import fit_operators
from lab.distributed.operator_roofline import Roofline

CATALOG = load_catalog()
DISPATCH = 20e-6


def synthetic(gpu: str, slower: float = 1.0, seed: int = 0, rows: int = 300) -> pd.DataFrame:
    """Operators by a plain law: 1.25 times the data sheet's time, times ``slower``, and 20 us of dispatch."""
    rng = np.random.default_rng(seed)

    def side() -> int:
        return int(2 ** rng.uniform(6, 13))

    shapes = [product_row(1, side(), side(), side(), "float32") for _ in range(rows)]
    shapes += [
        product_row(int(2 ** rng.uniform(2, 8)), *(int(2 ** rng.uniform(5, 11)) for _ in "mnk"), "float32") for _ in range(rows)
    ]
    for family in ("normalisation", "softmax", "elementwise"):
        shapes += [pass_row(family, side() * 8, side(), "float32", 2) for _ in range(rows // 3)]
    table = pd.DataFrame(shapes, columns=list(SHAPE_COLUMNS))
    of = CATALOG[gpu]
    ideal = np.maximum(table["flops"] / (of.fp32_flops or 1.0), table["bytes"] / of.memory_bandwidth)
    seconds = slower * 1.25 * ideal + DISPATCH
    return table.assign(gpu=gpu, op="x", seconds=seconds, **{"pass": "forward"})[list(CORPUS_COLUMNS)]


CORPUS = pd.concat([synthetic("A100 PCIe 40GB"), synthetic("V100 PCIe 32GB", seed=1)], ignore_index=True)


@pytest.fixture(scope="module")
def model():  # type: ignore[no-untyped-def]
    """Of a third of the trees, which are enough for a plain law."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosting, "_TREES", 40)
        return fit_operators(CORPUS, CATALOG)


def errors(times: LearnedTimes, rows: pd.DataFrame) -> NDArray[np.float64]:
    return np.abs(times.measured_seconds_of(rows) / rows["seconds"].to_numpy() - 1)


def shipped_operators() -> OperatorModel:
    operators = DistributedModel.load().operators
    assert operators is not None
    return operators


def test_a_law_that_all_gpus_share_carries_over(model) -> None:  # type: ignore[no-untyped-def]
    unseen = synthetic("A100 SXM4 80GB", seed=2)
    assert np.median(errors(LearnedTimes(CATALOG["A100 SXM4 80GB"], model), unseen)) < 0.05


def test_dispatch_is_measured_but_not_answered(model) -> None:  # type: ignore[no-untyped-def]
    times = LearnedTimes(CATALOG["A100 PCIe 40GB"], model)
    rows = CORPUS[CORPUS["gpu"] == "A100 PCIe 40GB"]
    added = times.measured_seconds_of(rows) - times.seconds_of(rows)
    products = rows["family"].isin(["linear", "bmm"]).to_numpy()
    assert added[products] == pytest.approx(DISPATCH, rel=0.4)


def test_unlike_boards_are_far_apart() -> None:
    t4, p4, a100 = (Board(CATALOG[name].tdp, CATALOG[name].compute_capability) for name in ("T4", "P4", "A100 PCIe 40GB"))
    assert distance(t4, p4) < distance(t4, a100)
    assert distance(t4, t4) == 0


def test_a_model_on_disk_answers_the_same(model, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    DistributedModel(Coefficients(), model, 3, ("T4",)).save(tmp_path / "m")
    whole = DistributedModel.load(tmp_path / "m")
    assert (whole.coefficients, whole.runs, whole.gpus) == (Coefficients(), 3, ("T4",)) and whole.operators is not None
    again = whole.operators
    rows = synthetic("T4", rows=30)
    assert again.kernel_seconds(rows, CATALOG["T4"]) == pytest.approx(model.kernel_seconds(rows, CATALOG["T4"]), rel=1e-12)


def test_the_shipped_model_stays_near_what_the_data_sheet_allows() -> None:
    shipped = shipped_operators()
    large = [product(4096, 4096, 4096), product(8192, 1024, 4096)]
    for name in ("H100 SXM5", "A100 SXM4 80GB", "L4", "T4", "RTX 4090"):
        ratio = LearnedTimes(CATALOG[name], shipped).seconds(large) / Roofline(CATALOG[name]).seconds(large)
        assert ((ratio > 0.9) & (ratio < 5)).all(), (name, ratio)


def test_half_precision_is_faster_and_communication_free() -> None:
    times = LearnedTimes(CATALOG["A100 SXM4 80GB"], shipped_operators())
    reduced = Operator("all_reduce", "communication", "forward", (Tensor((8,), "float32"),), ())
    full, half, none = times.seconds([product(4096, 4096, 4096), product(4096, 4096, 4096, dtype="float16"), reduced])
    assert 8 < full / half < 24  # 312 over 19.5 TFLOP/s
    assert none == 0
    tf32 = LearnedTimes(CATALOG["A100 SXM4 80GB"], shipped_operators(), tf32=True).seconds([product(4096, 4096, 4096)])[0]
    assert half < tf32 < full


def test_attention_costs_its_products_and_not_its_scores() -> None:
    heads = Tensor((4, 16, 2048, 64), "float32")
    flops = 4.0 * 4 * 16 * 2048**2 * 64
    fused = Operator("epochcast.attention", "attention", "forward", (heads, heads, heads), (heads,), flops=flops)
    (row,) = shapes_of([fused]).to_dict("records")
    assert (row["family"], row["batch"], row["flops"], row["bytes"]) == ("bmm", 64, flops, 4.0 * heads.bytes)
    assert 2.0 * row["batch"] * row["m"] * row["n"] * row["k"] == flops


def test_a_family_that_was_measured_nowhere_is_refused() -> None:
    only = fit_operators(CORPUS[CORPUS["family"] == "softmax"], CATALOG)
    with pytest.raises(InputError, match="knows no linear operators"):
        LearnedTimes(CATALOG["T4"], only).seconds([product(64, 64, 64)])
