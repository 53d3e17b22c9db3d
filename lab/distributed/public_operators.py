"""All measured operators: NeuSight's, AIConfigurator's (``operators/`` of the shared data) and ours of one H200."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.distributed.operator_time.shapes import SHAPE_COLUMNS, product_row
from epochcast.analyzer.backends.distributed.operator_time.table import CORPUS_COLUMNS
from epochcast.regressor import Catalog
from lab.distributed.neusight import read_corpus
from lab.speed.page import ROOT, public

_NEUSIGHT = ("bmm", "elem", "linear", "ln", "softmax")
_DTYPES = {"bf16": "bfloat16", "fp8": "fp8"}
"""FP8 with a scale per token, as training libraries have it; blocks of 128 and FP4 are of inference."""


def read_operators(catalog: Catalog) -> pd.DataFrame:
    """One row per measured operator, columns of a corpus; GPUs that the catalogue does not have are left out."""
    tables = [read_corpus(public(f"distributed/neusight_ops_{family}.csv.gz"), catalog) for family in _NEUSIGHT]
    tables += [read_products(public("operators/gemm.csv.gz")), read_attention(public("operators/attention.csv.gz"))]
    tables.append(read_corpus(ROOT / "data" / "h200" / "op_bench" / "operators.csv", catalog))
    every = pd.concat(tables, ignore_index=True)
    return every[every["gpu"].isin(set(catalog))].reset_index(drop=True)


def read_products(path: Path) -> pd.DataFrame:
    """Dense products y[m, n] = x[m, k] w[n, k]^T."""
    measured = _measured(path)
    rows = [
        product_row(1, *sizes)
        for sizes in zip(measured["m"], measured["n"], measured["k"], measured["dtype"].map(_DTYPES), strict=True)
    ]
    return _corpus(measured, rows, "linear")


def read_attention(path: Path) -> pd.DataFrame:
    """Causal attention of whole prompts."""
    measured = _measured(path)
    measured = measured[measured["dtype"] == "bf16"]
    rows: list[tuple[object, ...]] = []
    for row in measured.to_dict("records"):
        heads, length = row["batch"] * row["heads"], row["sequence"]
        tensors = 2 * row["batch"] * (row["heads"] + row["kv_heads"]) * length * row["head_size"]
        flops = 2.0 * heads * length**2 * row["head_size"]
        rows.append(("attention", heads, length, length, row["head_size"], flops, 2.0 * tensors, "bfloat16"))
    return _corpus(measured, rows, "sdpa")


def _measured(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path)
    return table[table["dtype"].isin(_DTYPES)]


def _corpus(measured: pd.DataFrame, rows: list[tuple[object, ...]], op: str) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(SHAPE_COLUMNS)).assign(
        gpu=measured["gpu"].to_numpy(),
        op=op,
        seconds=np.asarray(measured["ms"], dtype=float) * 1e-3,
        **{"pass": "forward"},
    )[list(CORPUS_COLUMNS)]
