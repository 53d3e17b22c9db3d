"""How well all-reduce times are known inside a node: leave-one-octave-out errors, and the coefficients that are shipped.

Each octave of sizes (1-2 MiB, 2-4 MiB, ...) is predicted from the others: by interpolation in the table, and by latency
and bandwidth fitted to it (``communication/measured.py``); the link's data sheet alone is the baseline.

    python -m benchmarks.distributed.all_reduce            # the errors, and the fits as TOML with --fits
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np

from epochcast.analyzer.backends.distributed.communication import (
    AllReduceTable,
    Cluster,
    all_reduce_seconds,
    fit_all_reduce,
    link_named,
    read_all_reduces,
)
from epochcast.regressor import load_catalog

SETS = {"a100": ("A100 SXM4 80GB", "NVLink 3"), "v100": ("V100 SXM2 32GB", "NVLink 2")}


def _from_data_sheet(table: AllReduceTable, gpus: int, gpu: str, link: str) -> np.ndarray:
    cluster = Cluster(load_catalog()[gpu], gpus, link_named(link), intra_efficiency=1.0)
    return np.array([all_reduce_seconds(cluster, nbytes, gpus) for nbytes in table.nbytes])


def _left_out(table: AllReduceTable, gpus: int) -> dict[str, np.ndarray]:
    """Predictions of every size from the other octaves, by name of the way."""
    octave = np.floor(np.log2(table.nbytes)).astype(int)
    octave = np.minimum(octave, octave.max() - 1)  # the last size, 1 GiB, alone is no octave
    ways = {name: np.zeros_like(table.measured) for name in ("interpolated", "latency and bandwidth")}
    for one in np.unique(octave):
        out = octave == one
        rest = AllReduceTable(table.nbytes[~out], table.measured[~out])
        ways["interpolated"][out] = rest.seconds(table.nbytes[out])
        ways["latency and bandwidth"][out] = fit_all_reduce(rest, gpus).seconds(table.nbytes[out])
    return ways


def _mape(predicted: np.ndarray, table: AllReduceTable) -> tuple[float, float]:
    """Mean absolute percentage error, each octave counting alike, and that of the worst octave."""
    error = 100 * np.abs(predicted / table.measured - 1)
    octave = np.floor(np.log2(table.nbytes))
    means = [error[octave == one].mean() for one in np.unique(octave)]
    return float(np.mean(means)), float(np.max(means))


def main() -> None:
    """Print the errors, or the fits."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--fits", action="store_true", help="print the fits to all sizes as TOML")
    fits = arguments.parse_args().fits
    path = Path(os.environ.get("EPOCHCAST_SHARED", "../shared")) / "data/distributed/nccl_all_reduce.csv.gz"
    if not path.exists():
        sys.exit(f"{path} is not there; EPOCHCAST_SHARED names the folder with the public measurements")
    if not fits:
        print("mean (worst octave) absolute error in %, octaves counting alike; all but the data sheet leave the octave out")
    every: dict[str, list[float]] = {}
    for name, (gpu, link) in SETS.items():
        for gpus, table in read_all_reduces(path, name).items():
            fit = fit_all_reduce(table, gpus)
            if fits:
                print(f"# {name}, {len(table.nbytes)} sizes, mean error {_mape(fit.seconds(table.nbytes), table)[0]:.1f} %")
                print("[[measured.fit]]")
                print(f"gpus = {gpus}\nlatency = {fit.latency:.4g}\nbandwidth = {fit.bandwidth:.4g}\n")
                continue
            ways = {"data sheet": _from_data_sheet(table, gpus, gpu, link), **_left_out(table, gpus)}
            errors = {way: _mape(predicted, table) for way, predicted in ways.items()}
            for way, (mean, _) in errors.items():
                every.setdefault(way, []).append(mean)
            cells = "   ".join(f"{way} {mean:5.1f} ({worst:5.1f})" for way, (mean, worst) in errors.items())
            print(f"{name} x{gpus}  n={len(table.nbytes)}  {cells}")
    for way, means in every.items():
        spread = f"sd over {len(means)} tables {np.std(means):4.1f}  worst {np.max(means):5.1f}"
        print(f"{way:22s} mean {np.mean(means):5.1f}  {spread}")


if __name__ == "__main__":
    main()
