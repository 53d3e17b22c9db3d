"""Single operators of GPUs whose operators were left out: products, attention, all-reduces, beside the data sheet.

Of typical sizes (:func:`lab.distributed.operator_rows.is_typical`); of all-reduces the link's data sheet is what is left.

Run: python -m lab.speed.distributed.operators_left_out [--write]
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from epochcast.analyzer.backends.distributed.communication.cluster import all_reduce_seconds, cluster_for
from epochcast.analyzer.backends.distributed.operator_time.learned import ideal_of
from epochcast.regressor import load_catalog
from epochcast.regressor.scoring import absolute_percentage_errors
from lab.distributed.fitting import fit_operators
from lab.distributed.operator_rows import is_typical
from lab.distributed.public_operators import read_operators
from lab.speed.distributed.all_reduce import tables
from lab.speed.page import DISTRIBUTED, markdown_table, options, publish

GPUS = ("A100 SXM4 80GB", "H200 SXM", "B200 SXM", "L40S", "H100 SXM5")


def lines() -> Iterator[str]:
    """A row per GPU, kind and dtype."""
    catalog = load_catalog()
    corpus = read_operators(catalog)
    found = []
    for name in GPUS:
        model = fit_operators(corpus[corpus["gpu"] != name], catalog)
        own = corpus[(corpus["gpu"] == name) & is_typical(corpus)]
        for (family, dtype), rows in own.groupby(["family", "dtype"]):
            if len(rows) < 100:
                continue
            ideal, seconds = ideal_of(rows, catalog[name], str(dtype)), rows["seconds"].to_numpy(dtype=float)
            found.append(
                (
                    name,
                    f"{family}, {dtype}",
                    seconds,
                    model.kernel_seconds(rows, catalog[name]),
                    np.maximum(ideal.plain, ideal.traffic),
                )
            )
        sets = {"a100": "A100 SXM4 80GB"}
        reduced = [(gpus, table) for gpu, gpus, table in tables() if sets.get(gpu, gpu) == name]
        measured = np.concatenate([table.measured for _, table in reduced])
        unknown = [_by_sheet(name, gpus, table.nbytes, 0.75) for gpus, table in reduced]
        sheet = [_by_sheet(name, gpus, table.nbytes, 1.0) for gpus, table in reduced]
        found.append((name, "all-reduce", measured, np.concatenate(unknown), np.concatenate(sheet)))
    yield from markdown_table(
        ("GPU left out", "operators", "n", "MAPE (median) %", "data sheet"),
        [
            (name, what, str(len(seconds)), *(_errors(seconds, each) for each in (ours, sheet)))
            for name, what, seconds, ours, sheet in found
        ],
    )


def _by_sheet(gpu: str, gpus: int, nbytes: np.ndarray, efficiency: float) -> np.ndarray:
    """Seconds of all-reduces over links that were not measured, at a share of their line rate (0.75 is the product's)."""
    cluster = replace(cluster_for(gpu, gpus, gpus), measured={}, intra_efficiency=efficiency)
    return np.array([all_reduce_seconds(cluster, float(size), gpus) for size in nbytes])


def _errors(measured: np.ndarray, predicted: np.ndarray) -> str:
    errors = absolute_percentage_errors(measured, predicted)
    return f"{errors.mean():.1f} ({np.median(errors):.1f})"


if __name__ == "__main__":
    publish(DISTRIBUTED, "LEFT-OUT", lines(), write=options(__doc__).parse_args().write)
