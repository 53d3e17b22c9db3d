"""What gloo takes between processes of this machine, to predict CPU runs with: all-reduces as a table, a transfer as a link.

    python -m benchmarks.distributed.gloo_loopback --processes 2 --out gloo.csv

``read_all_reduces("gloo.csv")`` is what a ``Cluster`` takes as ``measured``; the [[link]] printed is for ``load_links``.
Times are medians; on a busy machine they tell of its load.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.distributed
from torch import Tensor

from epochcast.analyzer.backends.distributed.communication import fit_all_reduce, read_all_reduces

SIZES = [2**power for power in range(12, 27)]


def _median(run: Callable[[Tensor], object], nbytes: int) -> float:
    """Median seconds of a call with a buffer of ``nbytes``; small ones are repeated more."""
    buffer = torch.ones(nbytes // 4)
    seconds = []
    for _ in range(max(9, min(51, 2**26 // nbytes))):
        torch.distributed.barrier()
        start = time.perf_counter()
        run(buffer)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _there_and_back(buffer: Tensor) -> None:
    if torch.distributed.get_rank() == 0:
        torch.distributed.send(buffer, 1)
        torch.distributed.recv(buffer, 1)
    elif torch.distributed.get_rank() == 1:
        torch.distributed.recv(buffer, 0)
        torch.distributed.send(buffer, 0)


def _process(rank: int, processes: int, meeting: str, out: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=processes)
    reduces = {size: _median(torch.distributed.all_reduce, size) for size in SIZES}
    transfers = {size: _median(_there_and_back, size) / 2 for size in SIZES}
    if rank == 0:
        lines = [f"{size},gloo,{processes},{seconds * 1e9:.0f}" for size, seconds in reduces.items()]
        Path(out).write_text("\n".join(["bytes,gpu,gpus,time_ns", *lines]) + "\n", "utf-8")
        # Relative errors, as the all-reduces are fitted.
        sizes, seconds = np.array(list(transfers)), np.array(list(transfers.values()))
        terms = np.stack([np.ones(len(sizes)), sizes], axis=1) / seconds[:, None]
        (latency, per_byte), *_ = np.linalg.lstsq(terms, np.ones(len(sizes)), rcond=None)
        error = 100 * np.mean(np.abs((latency + per_byte * sizes) / seconds - 1))
        print(f"# {len(sizes)} sizes, mean error {error:.0f} %, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        print('[[link]]\nname = "gloo"\nkind = "loopback"\nmeasured = true')
        print(f"bandwidth = {1 / per_byte:.3g}\nlatency = {latency:.3g}")
    torch.distributed.destroy_process_group()


def main() -> None:
    """Measure, write the table, print the link and the fit of the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("gloo.csv"))
    arguments = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        call = (arguments.processes, f"{folder}/meeting", str(arguments.out))
        torch.multiprocessing.spawn(_process, call, nprocs=arguments.processes)
    for gpus, table in read_all_reduces(arguments.out).items():
        fit = fit_all_reduce(table, gpus)
        error = 100 * np.mean(np.abs(fit.seconds(table.nbytes) / table.measured - 1))
        of = f"{fit.latency * 1e6:.0f} us + 2 (n-1)/n V / {fit.bandwidth / 1e9:.2f} GB/s"
        print(f"# all-reduce over {gpus}: {of}, mean error {error:.0f} %")


if __name__ == "__main__":
    main()
