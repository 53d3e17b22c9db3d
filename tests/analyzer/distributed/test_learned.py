"""The shipped model of operator times."""

from hand_made import product

from epochcast.analyzer.backends.distributed.fitted_model import DistributedModel
from epochcast.analyzer.backends.distributed.models.graph import Operator, Tensor
from epochcast.analyzer.backends.distributed.operator_time.learned import LearnedTimes
from epochcast.analyzer.backends.distributed.operator_time.shapes import shapes_of
from epochcast.analyzer.backends.distributed.plan.job import precision_named
from epochcast.analyzer.backends.distributed.search import available
from epochcast.regressor import load_catalog
from lab.distributed.operator_roofline import Roofline

CATALOG = load_catalog()
SHIPPED = DistributedModel.load().operators


def times(gpu: str, precision: str) -> LearnedTimes:
    return LearnedTimes(CATALOG[gpu], SHIPPED, precision_named(precision))


def test_the_shipped_model_stays_near_what_the_data_sheet_allows() -> None:
    for name in ("H100 SXM5", "A100 SXM4 80GB", "B200 SXM", "L4", "T4", "RTX 4090"):
        for precision, dtype in (("fp32", "float32"), ("tf32", "float32"), ("fp16", "float16"), ("fp8", "bfloat16")):
            if precision not in available(CATALOG[name]):
                continue
            large = [product(4096, 4096, 4096, dtype=dtype), product(8192, 1024, 4096, dtype=dtype)]
            sheet = Roofline(CATALOG[name], precision_named(precision)).seconds(large)
            ratio = times(name, precision).seconds(large) / sheet
            assert ((ratio > 0.9) & (ratio < 5)).all(), (name, precision, ratio)


def test_each_precision_runs_on_its_tensor_cores_and_communication_is_free() -> None:
    reduced = Operator("all_reduce", "communication", "forward", (Tensor((8,), "float32"),), ())
    seconds = {
        precision: times("H100 SXM5", precision).seconds([product(8192, 8192, 8192, dtype=dtype), reduced])
        for precision, dtype in (("fp32", "float32"), ("tf32", "float32"), ("bf16", "bfloat16"), ("fp8", "bfloat16"))
    }
    alone = {precision: product_seconds for precision, (product_seconds, _) in seconds.items()}
    assert alone["fp8"] < alone["bf16"] < alone["tf32"] < alone["fp32"]
    assert 8 < alone["fp32"] / alone["bf16"] < 24  # 989 over 67 TFLOP/s
    assert all(none == 0 for _, none in seconds.values())


def test_attention_costs_its_products_and_not_its_scores() -> None:
    heads = Tensor((4, 16, 2048, 64), "float32")
    flops = 4.0 * 4 * 16 * 2048**2 * 64
    fused = Operator("epochcast.attention", "attention", "forward", (heads, heads, heads), (heads,), flops=flops)
    (row,) = shapes_of([fused], precision_named("fp32")).to_dict("records")
    assert (row["family"], row["batch"], row["flops"], row["bytes"]) == ("attention", 64, flops, 4.0 * heads.bytes)
    assert 2.0 * row["batch"] * row["m"] * row["n"] * row["k"] == flops


def test_fused_neighbours_take_one_pass() -> None:
    hidden = Tensor((64, 1024, 1024), "float16")
    add = Operator("aten.add.Tensor", "elementwise", "forward", (hidden, hidden), (hidden,), fused_bytes=hidden.bytes)
    rest = Operator("aten.mul.Tensor", "elementwise", "forward", (hidden, hidden), (hidden,))
    gpu, fp16 = CATALOG["A100 SXM4 80GB"], precision_named("fp16")
    first, second = LearnedTimes(gpu, SHIPPED, fp16, fused=True).seconds([add, rest])
    assert second == 0
    assert first < LearnedTimes(gpu, SHIPPED, fp16).seconds([add])[0] / 2
