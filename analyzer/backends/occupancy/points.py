"""Measured or modelled occupancies as a table: what predictors are fitted on and tested against.

One row per configuration, GPU and kind of label. Columns:

    network, family, batch, channels, image_size, sequence, hidden, layers, precision
                      the configuration, as :class:`.configuration.Configuration`; family as in Table II ("cnn", "rnn", …)
    gpu               name in the GPU catalogue
    labels            where the occupancies come from, one of LABELS
    mean, time_mean, max
                      occupancy of the kernels, ratio 0..1: arithmetic mean over launches (the paper's label), mean weighted by
                      duration, maximum
    kernels           launches of one step
    step_s            seconds of one step; NaN where not measured
    nvml_utilisation  ratio 0..1; NaN where not measured
    memory_bytes      peak device memory of the job; NaN where not known. Measured: of its tensors, without the CUDA context;
                      modelled: with it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from ....regressor import Catalog, load_catalog
from ...csv_text import numeric_column, parse_csv, read_text
from ...errors import InputError
from .configuration import Configuration
from .networks.known_networks import PRECISIONS

Labels = Literal["launch_config", "modelled", "ncu"]
LABELS: tuple[str, ...] = get_args(Labels)
"""``launch_config``: the occupancy calculation over the kernels that a profiler recorded. ``modelled``: the same calculation
over kernels that a model of the launches thinks would run: no measurement. ``ncu``: warps that the hardware counted."""

SIZES = ("batch", "channels", "image_size", "sequence", "hidden", "layers")
CONFIGURATION = ("network", *SIZES, "precision")
Target = Literal["mean", "time_mean", "max"]
TARGETS: tuple[str, ...] = get_args(Target)
COLUMNS = (*CONFIGURATION, "family", "gpu", "labels", *TARGETS, "kernels", "step_s", "nvml_utilisation", "memory_bytes")

TEXTS = ("network", "precision", "family", "gpu", "labels")
"""Columns of text; to be read as such, since a name may look like a number."""

_REQUIRED = tuple(name for name in COLUMNS if name not in ("step_s", "nvml_utilisation", "memory_bytes"))
_RATIOS = (*TARGETS, "nvml_utilisation")
_WHOLE = (*SIZES, "kernels")
_SLACK = 1e-6  # by which a mean may lie above a maximum: both are rounded when they are written
_MOST = 2**53  # whole numbers that a float still tells apart


def read_points(path: str | Path, catalog: Catalog | None = None) -> pd.DataFrame:
    """Read a table of these columns, CSV or .csv.gz, and check it; other columns are left out.

    Raises:
        InputError: the file is missing or no such table, or as :func:`check_points`.
    """
    return check_points(parse_csv(table_text(path), str(path), as_text=TEXTS), str(path), catalog)


def table_text(path: str | Path) -> str:
    """The text of a table of occupancies, unpacked where its name ends in ``.gz``.

    Raises:
        InputError: the file is missing, empty or no text.
    """
    if str(path) != "-" and not Path(path).exists():
        raise InputError(f"no such table of occupancies: {str(path)!r}; `epochcast benchmark occupancy` makes one")
    text = read_text(path)
    if not text.strip():
        raise InputError(f"{str(path)!r} is empty; give a table of `epochcast benchmark occupancy`")
    return text


def check_points(table: pd.DataFrame, name: str, catalog: Catalog | None = None) -> pd.DataFrame:
    """The table's :data:`COLUMNS` as text, whole numbers and floats, with the catalogue's names of GPUs.

    Args:
        table: at least the columns that cannot be left empty.
        name: of its file, for messages.
        catalog: of GPUs; ours by default.

    Raises:
        InputError: a column is missing, a cell is none that can be (a percentage, say), a GPU is not known, the same
            configuration stands there twice, or there is no row.
    """
    if missing := [column for column in _REQUIRED if column not in table]:
        raise InputError(f"{name!r} lacks the column {missing[0]!r}; give a table of `epochcast benchmark occupancy`")
    if table.empty:
        raise InputError(f"{name!r} holds no row below its header; give a table of measured networks")
    table = table.reindex(columns=COLUMNS)
    for column in TEXTS:
        texts = table[column].astype("string").str.strip()
        _refuse(table, column, texts.isna() | texts.eq(""), name, "fill it in")
        table[column] = texts.astype(object)
    _refuse(table, "labels", ~table["labels"].isin(LABELS), name, f"labels are {', '.join(LABELS)}")
    _refuse(table, "precision", ~table["precision"].isin(PRECISIONS), name, f"precisions are {', '.join(PRECISIONS)}")
    for column in (*_WHOLE, *_RATIOS, "step_s", "memory_bytes"):
        numbers = numeric_column(table[column], column, name)
        if column in _REQUIRED:
            _refuse(table, column, numbers.isna(), name, "fill it in or remove the row")
        table[column] = numbers
    for column in _WHOLE:
        least = 1 if column in ("batch", "kernels") else 0
        wrong = (table[column] % 1 != 0) | ~table[column].between(least, _MOST)
        _refuse(table, column, wrong, name, f"give a whole number of {least} or more")
    for column in _RATIOS:
        wrong = table[column].notna() & ~table[column].between(0, 1)
        percent = "; divide percentages by 100" if bool((table[column] > 1).any()) else ""
        _refuse(table, column, wrong, name, f"it is a ratio from 0 to 1{percent}")
    for column in ("step_s", "memory_bytes"):
        _refuse(table, column, table[column] <= 0, name, "give a number above 0 or leave it empty")
    for column in ("mean", "time_mean"):
        wrong = table[column] > table["max"] + _SLACK
        _refuse(table, column, wrong, name, "a mean is at most the maximum in column 'max'")
    known = catalog or load_catalog()
    table["gpu"] = table["gpu"].map({gpu: known.resolve(gpu).name for gpu in table["gpu"].unique()})
    if (twice := table.duplicated([*CONFIGURATION, "gpu", "labels"])).any():
        row = int(np.flatnonzero(twice)[0])
        again = table.iloc[row]
        raise InputError(
            f"{name!r} holds the same configuration twice: {again['network']!r} at batch {again['batch']:.0f} on "
            f"{again['gpu']!r}, again in row {row + 1}; remove one"
        )
    return table.astype(dict.fromkeys(_WHOLE, np.int64)).reset_index(drop=True)


def configurations(points: pd.DataFrame) -> Iterator[Configuration]:
    """The configuration of each row."""
    for row in points[list(CONFIGURATION)].to_dict("records"):
        yield Configuration(**{str(name): value for name, value in row.items()})


def _refuse(table: pd.DataFrame, column: str, wrong: pd.Series[Any], name: str, remedy: str) -> None:
    """Raise InputError about the first row that is wrong."""
    if not wrong.any():
        return
    row = int(np.flatnonzero(wrong.to_numpy())[0])
    seen = table[column].tolist()[row]  # of Python, not of numpy
    holds = "is empty" if pd.isna(seen) or not str(seen).strip() else f"holds {seen!r}"
    raise InputError(f"column {column!r} of {name!r} {holds} in row {row + 1}; {remedy}")


@dataclass(frozen=True)
class Reading:
    """What was read.

    Attributes:
        points: usable rows (``points.py``), index from 0.
        left_out: how many rows were not usable, by the reason.
        notes: what else the user should know, a sentence each.
    """

    points: pd.DataFrame
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
