"""Measured operators from the three formats: base units, shapes, and refusals of one sentence."""

import json
from pathlib import Path

import pandas as pd
import pytest

from epochcast.analyzer.backends.distributed.models.graph import Operator, Tensor
from epochcast.analyzer.backends.distributed.operator_time.shapes import shapes_of
from epochcast.analyzer.backends.distributed.plan.precision import precision_named
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from lab.distributed.neusight import read_corpus
from lab.distributed.operator_text import operator_text

CATALOG = load_catalog()


def neusight(folder: Path, name: str, rows: str) -> Path:
    file = folder / name
    file.write_text(rows)
    return file


def test_op_bench_gradients_are_products_of_other_sides(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text(json.dumps({"device": {"gpu": "_CudaDeviceProperties(name='NVIDIA H200', major=9)"}}))
    linear, bmm = '{"m": 7, "n": 5, "k": 3}', '{"b": 2, "m": 7, "n": 5, "k": 3}'
    rows = [
        ("linear", linear, "bf16", "wgrad", 100.0, "ok"),
        ("linear", linear, "tf32", "dgrad", 100.0, "ok"),
        ("bmm", bmm, "fp32", "wgrad", 100.0, "ok"),
        ("linear", linear, "fp8", "fwd", 50.0, "ok"),
        ("linear", linear, "fp16", "fwd", "", "oom"),
    ]
    columns = ["op", "shape", "precision", "pass", "median_us", "status"]
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / "ops.csv", index=False)
    corpus = read_corpus(tmp_path / "ops.csv", CATALOG)
    assert corpus[["batch", "m", "n", "k"]].to_numpy().tolist() == [[1, 5, 3, 7], [1, 7, 3, 5], [2, 3, 5, 7]]
    assert corpus["dtype"].tolist() == ["bfloat16", "tf32", "float32"]
    assert corpus["gpu"].unique().tolist() == ["H200 SXM"]
    assert corpus["seconds"].to_numpy() == pytest.approx(1e-4)
    assert corpus["pass"].unique().tolist() == ["backward"]


def test_benchmarked_operators_are_what_a_graph_asks_for(tmp_path: Path) -> None:
    tensors = Tensor((4, 6), "float32"), Tensor((6, 8), "float32")
    operator = Operator("aten.mm.default", "matmul", "forward", tensors, (Tensor((4, 8), "float32"),), 384.0, arguments=tensors)
    row = ("A CPU of no catalogue", operator.name, operator_text(operator), "fp32", "forward", 1e-3, 384.0)
    table = pd.DataFrame([row], columns=["gpu", "op", "shape", "precision", "pass", "seconds", "flops"])
    table.to_csv(tmp_path / "own.csv", index=False)
    corpus = read_corpus(tmp_path / "own.csv", CATALOG)
    expected = shapes_of([operator], precision_named("fp32"))
    pd.testing.assert_frame_equal(corpus[list(expected)], expected)
    assert corpus.loc[0, "gpu"] == "A CPU of no catalogue"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("OPName,Latency,Device,B,M,N,K\nbmm,0,Tesla T4,8,64,32,16\n", r"measurement 1 \(bmm on T4\) has 0 seconds"),
        ("OPName,Latency,Device,B,M,N,K\nbmm,1,Tesla T4,8,64,32,0\n", "has 0.001 seconds"),
        ("OPName,Latency,Device,B,M,N,K\nbmm,1e9,Tesla T4,8,64,32,16\n", "below an hour"),
        ("OPName,Latency,Device,B,H\nfft,1,Tesla T4,8,64\n", "unknown operator 'fft'"),
        ("a,b\n1,2\n", "needs the columns gpu, op, shape"),
        ("", "cannot read"),
    ],
)
def test_what_is_no_measurement_is_refused_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_corpus(neusight(tmp_path, "file.csv", text), CATALOG)


def test_op_bench_without_its_meta_does_not_say_its_gpu(tmp_path: Path) -> None:
    (tmp_path / "ops.csv").write_text("op,shape,precision,pass,median_us\nlinear,{},fp32,fwd,1\n")
    with pytest.raises(InputError, match="does not name its GPU"):
        read_corpus(tmp_path / "ops.csv", CATALOG)
