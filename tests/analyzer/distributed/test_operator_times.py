"""Times of operators: from those measured on the same GPU, as a table is read, and by the shipped model."""

from pathlib import Path

import pandas as pd
import pytest
from hand_made import product

from epochcast.analyzer.backends.distributed.fitted_model import DistributedModel
from epochcast.analyzer.backends.distributed.models.graph import Operator, Tensor
from epochcast.analyzer.backends.distributed.operator_time.learned import LearnedTimes
from epochcast.analyzer.backends.distributed.operator_time.shapes import SHAPE_COLUMNS, product_row, shapes_of
from epochcast.analyzer.backends.distributed.operator_time.table import CORPUS_COLUMNS, Table, read_corpus
from epochcast.analyzer.backends.distributed.plan.job import available, precision_named
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from lab.distributed import neusight
from lab.distributed.operator_roofline import Roofline

FP32 = precision_named("fp32")
SPEED = 1e12


def measured_products(sides: list[tuple[int, int, int]], seconds: list[float]) -> pd.DataFrame:
    shapes = pd.DataFrame([product_row(1, *one, "float32") for one in sides], columns=list(SHAPE_COLUMNS))
    return shapes.assign(gpu="T4", op="mm", seconds=seconds, **{"pass": "forward"})[list(CORPUS_COLUMNS)]


GRID = [(m, n, k) for m in (64, 256, 1024) for n in (64, 256) for k in (64, 512)]
UNIFORM = measured_products(GRID, [2.0 * m * n * k / SPEED for m, n, k in GRID])


def test_a_measured_size_answers_its_own_time_whatever_lies_near() -> None:
    table = Table(measured_products([(64, 64, 64), (64, 64, 65)], [1e-3, 7e-3]), "T4", FP32)
    assert table.seconds([product(64, 64, 64), product(64, 64, 65)]) == pytest.approx([1e-3, 7e-3])


def test_between_measured_sizes_time_follows_the_work() -> None:
    asked = [(100, 100, 100), (700, 130, 300)]
    expected = [2.0 * m * n * k / SPEED for m, n, k in asked]
    assert Table(UNIFORM, "T4", FP32).seconds([product(*one) for one in asked]) == pytest.approx(expected)


def test_sizes_far_outside_are_refused() -> None:
    with pytest.raises(InputError, match="m 4096, n 64, k 64 is outside"):
        Table(UNIFORM, "T4", FP32).seconds([product(4096, 64, 64)])


def test_another_dtype_and_another_gpu_are_refused() -> None:
    with pytest.raises(InputError, match="no linear operators in float16 of T4"):
        Table(UNIFORM, "T4", FP32).seconds([product(64, 64, 64, dtype="float16")])
    with pytest.raises(InputError, match="no operators of V100; it holds T4"):
        Table(UNIFORM, "V100", FP32).seconds([product(64, 64, 64)])


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


ROW = ("A CPU of no catalogue", "aten.mm.default", "forward", "linear", 1, 4, 8, 6, 384.0, 416.0, "float32", 1e-3)


def written(folder: Path, **changes: object) -> Path:
    file = folder / "own.csv"
    pd.DataFrame([dict(zip(CORPUS_COLUMNS, ROW, strict=True)) | changes]).to_csv(file, index=False)
    return file


def test_a_gpu_has_its_name_of_the_catalogue_and_any_other_device_its_own(tmp_path: Path) -> None:
    assert tuple(read_corpus(written(tmp_path), CATALOG).iloc[0]) == ROW
    assert read_corpus(written(tmp_path, gpu="Tesla T4"), CATALOG)["gpu"].tolist() == ["T4"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seconds": 0}, "'seconds' of .*own.csv' holds 0 in data row 1; give a number from 1e-09 to 3600"),
        ({"seconds": 1e6}, "'seconds' of .*own.csv' holds 1000000.0 in data row 1; give a number from 1e-09 to 3600"),
        ({"k": 0}, "'k' of .*own.csv' holds 0 in data row 1; give a number of 1 or more"),
        ({"bytes": "many"}, "'bytes' of .*own.csv'"),
        ({"dtype": ""}, "'dtype' of .*own.csv' is empty"),
    ],
)
def test_what_is_no_measurement_is_refused_in_one_sentence(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_corpus(written(tmp_path, gpu="T4", **changes), CATALOG)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("OPName,Latency,Device,B,M,N,K\nbmm,0,Tesla T4,8,64,32,16\n", "measurement 1 has 0 seconds"),
        ("OPName,Latency,Device,B,H\nfft,1,Tesla T4,8,64\n", "unknown operator 'fft'"),
        ("a,b\n1,2\n", "lacks the column 'gpu'; a table of operators has gpu, op"),
        ("", "file.csv"),
    ],
)
def test_another_file_is_refused_by_product_and_lab(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "file.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        neusight.read_corpus(file, CATALOG)
