"""``ops.csv`` of ``op_bench.py``: one row per operator, shape, precision and pass, with the median of its times."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.gpu_scripts import meta_beside

COLUMNS = frozenset({"op", "shape", "precision", "pass", "median_us"})
"""By which the file is recognised."""

_DTYPES = {"fp32": "float32", "tf32": "tf32", "fp16": "float16", "bf16": "bfloat16"}


def gpu_name(file: Path) -> str:
    """The driver's name of the GPU; InputError if ``meta.json`` next to the file does not say it."""
    named = re.search(r"name='([^']*)'", str(meta_beside(file, "device", "gpu")))
    if named is None:
        raise InputError(f"{file.name} does not name its GPU; put the meta.json of an op_bench run on CUDA next to it")
    return named[1]


def measured_operators(table: pd.DataFrame, file: Path) -> pd.DataFrame:
    """The rows of the file that were measured, without those in FP8.

    Columns besides the file's own: ``dtype`` (torch's name, or ``tf32``), ``sizes`` (what the JSON in ``shape`` holds, by the
    script's names) and ``seconds``.

    Raises:
        InputError: a shape is no JSON object.
    """
    dtypes = table["precision"].map(_DTYPES)
    ok = table["status"].eq("ok") if "status" in table else True
    kept = table[dtypes.notna() & ok]
    sizes = [_sizes(text, file, row) for row, text in zip(kept.index + 1, kept["shape"], strict=True)]
    return kept.assign(
        dtype=dtypes[kept.index], sizes=pd.Series(sizes, kept.index), seconds=kept["median_us"].astype(float) * 1e-6
    )


def _sizes(text: object, file: Path, row: int) -> dict[str, Any]:
    try:
        sizes = json.loads(str(text))
    except ValueError as error:
        raise InputError(f"{file.name}: the shape of row {row} is {str(text)[:60]!r}; it must be JSON") from error
    if not isinstance(sizes, dict):
        raise InputError(f"{file.name}: the shape of row {row} is {str(text)[:60]!r}; it must be a JSON object")
    return sizes
