"""The shipped model of operator times."""

from hand_made import product

from epochcast.analyzer.backends.distributed.fitted_model import DistributedModel
from epochcast.analyzer.backends.distributed.graph import Operator, Tensor
from epochcast.analyzer.backends.distributed.operator_time.learned import LearnedTimes, OperatorModel
from epochcast.analyzer.backends.distributed.operator_time.shapes import shapes_of
from epochcast.regressor import load_catalog
from lab.distributed.operator_roofline import Roofline

CATALOG = load_catalog()


def shipped_operators() -> OperatorModel:
    operators = DistributedModel.load().operators
    assert operators is not None
    return operators


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
