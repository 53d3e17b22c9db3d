"""How well all-reduce times are known inside a node: leave-one-octave-out errors, and the coefficients that are shipped.

Each octave of sizes (1-2 MiB, 2-4 MiB, ...) is predicted from the others: by interpolation in the table, and by latency
and bandwidth fitted to it (``communication/measured.py``); the link's data sheet alone is the baseline.

    python -m lab.speed.distributed.all_reduce [--fits]
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.distributed.communication.cluster import all_reduce_seconds, cluster_for
from lab.distributed.all_reduces import AllReduceTable, fit_all_reduce, read_all_reduces
from lab.speed.page import markdown_table, options, public

SETS = {"a100": "A100 SXM4 80GB", "v100": "V100 SXM2 32GB"}
OTHERS = ("H100 SXM5", "H200 SXM", "B200 SXM", "GB200", "L40S")
"""GPUs of the collectives of AIConfigurator; of an A100 vTrain's have more sizes."""
LEAST_BYTES = 2**20


def tables() -> Iterator[tuple[str, int, AllReduceTable]]:
    """Name of the set, number of GPUs, and measured times."""
    path = public("distributed/nccl_all_reduce.csv.gz")
    for name in SETS:
        for gpus, table in read_all_reduces(path, name).items():
            yield name, gpus, table
    rows = pd.read_csv(public("operators/nccl.csv.gz")).query("operation == 'all_reduce' and main == 1 and suspect == 0")
    for name in OTHERS:
        own = rows[(rows["gpu"] == name) & (rows["bytes"] >= LEAST_BYTES)]
        for gpus in sorted(set(own["gpus"])):
            times = own[own["gpus"] == gpus].groupby("bytes")["ms"].median() * 1e-3
            yield name, int(gpus), AllReduceTable(times.index.to_numpy(np.float64), times.to_numpy(np.float64))


def predicted(name: str, gpus: int, table: AllReduceTable) -> dict[str, np.ndarray]:
    """Seconds of every size: from the data sheet, and from the other octaves, by name of the way."""
    cluster = replace(cluster_for(SETS.get(name, name), gpus, gpus), measured={}, intra_efficiency=1.0)
    sheet = np.array([all_reduce_seconds(cluster, nbytes, gpus) for nbytes in table.nbytes])
    ways = {"interpolated": np.zeros_like(sheet), "latency and bandwidth": np.zeros_like(sheet), "data sheet": sheet}
    octave = np.floor(np.log2(table.nbytes))
    octave = np.minimum(octave, octave.max() - 1)  # the last size, 1 GiB, alone is no octave
    for one in np.unique(octave):
        out = octave == one
        rest = AllReduceTable(table.nbytes[~out], table.measured[~out])
        ways["interpolated"][out] = rest.seconds(table.nbytes[out])
        ways["latency and bandwidth"][out] = fit_all_reduce(rest, gpus).seconds(table.nbytes[out])
    return ways


def mape(seconds: np.ndarray, table: AllReduceTable) -> float:
    """Mean absolute percentage error, each octave counting alike."""
    error, octave = 100 * np.abs(seconds / table.measured - 1), np.floor(np.log2(table.nbytes))
    return float(np.mean([error[octave == one].mean() for one in np.unique(octave)]))


def errors() -> Iterator[str]:
    """By way: mean, standard deviation over the tables, and the worst table."""
    by_way: dict[str, list[float]] = {}
    for name, gpus, table in tables():
        for way, seconds in predicted(name, gpus, table).items():
            by_way.setdefault(way, []).append(mape(seconds, table))
    rows = [(way, *(f"{of(own):.1f}" for of in (np.mean, np.std, np.max))) for way, own in by_way.items()]
    yield from markdown_table((f"MAPE %, {len(by_way['data sheet'])} tables", "mean", "sd", "worst"), rows)


def fits() -> Iterator[str]:
    """The fits to all sizes, as ``measured_links.toml`` has them."""
    for name, gpus, table in tables():
        fit = fit_all_reduce(table, gpus)
        yield f"# {name}, {len(table.nbytes)} sizes, mean error {mape(fit.seconds(table.nbytes), table):.1f} %"
        yield f"[[measured.fit]]\ngpus = {gpus}\nlatency = {fit.latency:.4g}\nbandwidth = {fit.bandwidth:.4g}\n"


if __name__ == "__main__":
    parser = options(__doc__, page=False)
    parser.add_argument("--fits", action="store_true", help="print the fits to all sizes as TOML")
    print("\n".join(fits() if parser.parse_args().fits else errors()))
