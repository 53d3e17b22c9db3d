"""NeuSight's tables of measured operators, read as every other corpus is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.distributed.operator_time import table
from epochcast.analyzer.backends.distributed.operator_time.shapes import SHAPE_COLUMNS, product_row
from epochcast.analyzer.backends.distributed.operator_time.table import CORPUS_COLUMNS
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Catalog
from lab.distributed.operator_rows import pass_row


def _neusight(raw: pd.DataFrame, file: Path, catalog: Catalog) -> pd.DataFrame:
    """NeuSight's `data/dataset/train`: FP32 with TF32 off, forward; latency in ms, the mean of the 5 fastest of 25 runs."""
    names = {device: catalog.resolve(str(device)).name for device in raw["Device"].unique()}
    rows = [
        _neusight_row(str(measurement["OPName"]), {key: int(measurement[key]) for key in "BMNKH" if key in measurement}, file)
        for measurement in raw.to_dict("records")
    ]
    table = pd.DataFrame(rows, columns=list(SHAPE_COLUMNS))
    return table.assign(
        gpu=raw["Device"].map(names).to_numpy(),
        op=raw["OPName"].to_numpy(),
        seconds=raw["Latency"].to_numpy(dtype=float) * 1e-3,
        **{"pass": "forward"},
    )[list(CORPUS_COLUMNS)]


# Tensors of the operator's size that it reads and writes; the suffix u of NeuSight is an operand that is a number.
_TENSORS = {
    **dict.fromkeys(("add", "sub", "mul", "div", "pow"), 3),
    **dict.fromkeys(("addu", "subu", "mulu", "divu", "powu", "gelu", "relu", "silu", "tanh", "sigmoid", "neg", "dropout"), 2),
}
_NORMS = {"ln": "normalisation", "layer_norm": "normalisation", "softmax": "softmax"}


def _neusight_row(op: str, sizes: Mapping[str, int], file: Path) -> tuple[object, ...]:
    if op in ("bmm", "linear"):
        return product_row(sizes["B"], sizes["M"], sizes["N"], sizes["K"], "float32")
    if op in _NORMS:
        return pass_row(_NORMS[op], sizes["B"], sizes["H"], "float32", 2)
    if op in _TENSORS:
        return pass_row("elementwise", sizes["B"], sizes["H"], "float32", _TENSORS[op])
    raise InputError(f"{file.name}: unknown operator {op!r}; known are bmm, linear, {', '.join((*_NORMS, *_TENSORS))}")


def read_corpus(path: Path, catalog: Catalog) -> pd.DataFrame:
    """Read a corpus, a table of NeuSight's, or all of a folder that are one of them; raises InputError where there is none."""
    tables = []
    for file in sorted(each for each in path.iterdir() if ".csv" in each.suffixes) if path.is_dir() else [path]:
        columns = set(pd.read_csv(file, nrows=0)) if path.is_dir() or (path.is_file() and path.stat().st_size) else set()
        if {"OPName", "Latency", "Device"} <= columns:
            tables.append(_neusight(pd.read_csv(file), file, catalog))
            if not (tables[-1]["seconds"] > 0).all():
                row = int((tables[-1]["seconds"] > 0).to_numpy().argmin())
                raise InputError(f"{file.name}: measurement {row + 1} has {tables[-1]['seconds'][row]:g} seconds; remove it")
        elif not path.is_dir() or columns >= set(CORPUS_COLUMNS):
            tables.append(table.read_corpus(file, catalog))
    if not tables:
        raise InputError(f"{str(path)!r} holds no CSV file of operators; give a table of measured operators")
    return pd.concat(tables, ignore_index=True)
