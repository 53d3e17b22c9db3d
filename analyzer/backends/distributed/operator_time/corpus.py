"""Measured operators as one table, from any source; units become seconds here and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.distributed.models.graph import DTYPE_BYTES, Operator, Phase, Tensor
from epochcast.analyzer.backends.distributed.operator_time.shapes import (
    SHAPE_COLUMNS,
    check_finite,
    product_row,
    shapes_of,
)
from epochcast.analyzer.backends.distributed.plan.precision import precision_named
from epochcast.analyzer.backends.network.operators import Kind
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.gpu_scripts import op_bench
from epochcast.regressor import Catalog
from epochcast.regressor import InputError as RegressorInputError

CORPUS_COLUMNS = ("gpu", "op", "pass", *SHAPE_COLUMNS, "seconds")
"""``gpu`` is the catalogue's name; ``pass`` is forward or backward; the others as in :mod:`.shapes`."""

_LONGEST = 3600.0
"""An operator of more than an hour is milliseconds or microseconds read as seconds."""

_MAX_BYTES = 500_000_000


def read_corpus(path: Path, catalog: Catalog) -> pd.DataFrame:
    """Read measured operators from a CSV file, or from every CSV file of a folder that holds any.

    Two formats are distinguished by their columns: our own measurements (``gpu, op, shape, precision, pass, seconds``) and
    ``op_bench.py`` (``op, shape, precision, pass, median_us``, with the GPU in ``meta.json`` next to it).

    Returns:
        One row per measured operator, columns :data:`CORPUS_COLUMNS`.

    Raises:
        InputError: nothing to read, a GPU that the catalogue does not know, or a row that is no measurement.
    """
    if path.is_dir():
        tables = [table for file in _files(path) if (table := _read(file, catalog)) is not None]
        if not tables:
            raise InputError(f"{str(path)!r} holds no CSV file of operators; give a table of measured operators")
        return pd.concat(tables, ignore_index=True)
    table = _read(path, catalog)
    if table is None:
        raise InputError(
            f"{path.name} holds no measured operators; it needs the columns gpu, op, shape, precision, pass and seconds"
        )
    return table


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.name.endswith((".csv", ".csv.gz")))


def _read(file: Path, catalog: Catalog) -> pd.DataFrame | None:
    """The operators of one file; None if its columns are of none of the formats."""
    try:
        if file.stat().st_size > _MAX_BYTES:
            raise InputError(f"{file.name} is larger than {_MAX_BYTES} bytes; split it")
        raw = pd.read_csv(file, low_memory=False)
    except (OSError, UnicodeDecodeError, EOFError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise InputError(f"cannot read {file.name}: {' '.join(str(error).split())[:200]}; give a CSV file") from error
    for columns, reader in FORMATS:
        if columns <= set(raw):
            return _checked(reader(raw, file, catalog), file)
    return None


def _checked(table: pd.DataFrame, file: Path) -> pd.DataFrame:
    """Refuse rows that are no measurement; a row that gives a time of 0 or a negative size would spoil every fit."""
    seconds = table["seconds"].to_numpy(dtype=float)
    good = np.isfinite(seconds) & (seconds > 0) & (seconds < _LONGEST) & check_finite(table).to_numpy()
    if not good.all():
        row = int(np.argmin(good))
        raise InputError(
            f"{file.name}: measurement {row + 1} ({table['op'].iloc[row]} on {table['gpu'].iloc[row]}) has {seconds[row]:g} "
            f"seconds and {table['bytes'].iloc[row]:g} bytes; both must be positive and below an hour; remove the row"
        )
    return table


def _op_bench(raw: pd.DataFrame, file: Path, catalog: Catalog) -> pd.DataFrame:
    """``op_bench.py``'s ``ops.csv``; operators of several kernels are left out."""
    gpu = catalog.resolve(op_bench.gpu_name(file)).name
    measured = op_bench.measured_operators(raw, file)
    rows = [_op_bench_row(measurement) for measurement in measured.to_dict("records")]
    known = [row is not None for row in rows]
    if not any(known):
        raise InputError(f"{file.name} has no measured operator; check its status and note columns")
    measured = measured[known]
    return pd.DataFrame([row for row in rows if row is not None], columns=list(SHAPE_COLUMNS)).assign(
        gpu=gpu,
        op=measured["op"].to_numpy(),
        seconds=measured["seconds"].to_numpy(),
        **{"pass": np.where(measured["pass"] == "fwd", "forward", "backward")},
    )[list(CORPUS_COLUMNS)]


def _op_bench_row(measurement: Mapping[Any, Any]) -> tuple[object, ...] | None:
    op, step, dtype, s = measurement["op"], measurement["pass"], measurement["dtype"], measurement["sizes"]
    element = "float32" if dtype == "tf32" else dtype
    if op in ("linear", "reference_gemm", "bmm"):
        m, n, k = {"fwd": ("m", "n", "k"), "dgrad": ("m", "k", "n"), "wgrad": ("n", "k", "m")}[step]
        if op == "bmm" and step == "wgrad":
            m, n = n, m  # of a batched product the second operand is (k, n), of a linear layer (n, k)
        return product_row(s.get("b", 1), s[m], s[n], s[k], dtype)
    if op == "sdpa":
        flops, size = float(measurement["flops"]) * (2 if s["causal"] else 1), float(measurement["bytes"])
        batch, length = s["b"] * s["heads"], s["s"]
        return "attention", batch, length, length, max(round(flops / (2 * batch * length**2)), 1), flops, size, dtype
    if op == "conv2d":
        pixels, depth = s["b"] * (s["hw"] // s["stride"]) ** 2, s["cin"] * s["k"] ** 2
        return "convolution", 1, pixels, s["cout"], depth, float(measurement["flops"]), float(measurement["bytes"]), dtype
    if op in ("layer_norm", "softmax", "cross_entropy"):
        family = "normalisation" if op == "layer_norm" else "softmax"
        return family, 1, s["rows"], s.get("cols", s.get("vocab")), 1, 0.0, float(measurement["bytes"]), element
    if op in ("gelu", "relu", "silu", "add", "mul"):
        return "elementwise", 1, s["rows"], s["cols"], 1, 0.0, float(measurement["bytes"]), element
    return None


def _benchmark(raw: pd.DataFrame, file: Path, catalog: Catalog) -> pd.DataFrame:
    """Our own measurements: aten operators with their JSON (:func:`operator_from_text`), seconds."""
    devices = {device: _device(str(device), catalog) for device in raw["gpu"].unique()}
    flops = raw["flops"].fillna(0.0) if "flops" in raw else pd.Series(0.0, index=raw.index)
    tables = []
    for tf32, rows in raw.groupby(raw["precision"] == "tf32"):
        operators = [
            operator_from_text(str(name), str(step), float(count), str(shape))
            for name, step, count, shape in zip(rows["op"], rows["pass"], flops[rows.index], rows["shape"], strict=True)
        ]
        tables.append(shapes_of(operators, precision_named("tf32" if tf32 else "fp32")).set_index(rows.index))
    if not tables:
        raise InputError(f"{file.name} holds no operators; measure for longer")
    return (
        pd.concat(tables)
        .sort_index()
        .assign(gpu=raw["gpu"].map(devices), op=raw["op"], seconds=raw["seconds"].astype(float), **{"pass": raw["pass"]})
        .loc[:, list(CORPUS_COLUMNS)]
    )


def _device(name: str, catalog: Catalog) -> str:
    """The catalogue's name of a GPU; a CPU, or a GPU that the catalogue does not have, keeps its own and serves as a table."""
    try:
        return catalog.resolve(name).name
    except RegressorInputError:
        return name


_Reader = Callable[[pd.DataFrame, Path, Catalog], pd.DataFrame]
FORMATS: list[tuple[Set[str], _Reader]] = [
    (op_bench.COLUMNS, _op_bench),
    ({"gpu", "op", "shape", "precision", "pass", "seconds"}, _benchmark),
]
"""Readers by the columns that a format has; other formats may be added."""


def operator_from_text(name: str, phase: str, flops: float, text: str) -> Operator:
    """The operator from its column ``shape``, a JSON object of ``kind``, ``inputs``, ``outputs`` and ``arguments``.

    Raises:
        InputError: the text is no such object, or phase or kind is unknown.
    """
    try:
        parts = json.loads(text)
        kind, inputs, outputs, arguments = (parts[part] for part in ("kind", "inputs", "outputs", "arguments"))
        if kind not in get_args(Kind) or phase not in get_args(Phase):
            raise ValueError(f"{kind!r} in pass {phase!r}")
        passed = cast("Phase", phase)
        return Operator(name, kind, passed, _tensors(inputs), _tensors(outputs), flops, arguments=_value(arguments))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"operator {name!r} has the shape {text[:60]!r}, which cannot be read ({error}); "
            "it must be JSON with kind, inputs, outputs and arguments"
        ) from error


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        dtype, shape = value["dtype"], value["shape"]
        if dtype not in DTYPE_BYTES or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ValueError(f"tensor {value}")
        return Tensor(tuple(shape), dtype)
    if isinstance(value, list):
        return tuple(_value(element) for element in value)
    return value


def _tensors(values: Any) -> tuple[Tensor, ...]:
    tensors = _value(values)
    if not isinstance(tensors, tuple) or not all(isinstance(tensor, Tensor) for tensor in tensors):
        raise ValueError(f"tensors {values}")
    return tensors
