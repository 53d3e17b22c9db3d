"""Real data, tensor and pipeline parallelism of two processes over loopback (gloo) against the product's pieces put together.

    python -m lab.speed.distributed.gloo [--measure FILE.csv] [--write]     (part `GLOO` of docs/distributed.md)
    python -m lab.speed.distributed.gloo --links FILE.csv

Reports the rows of `data/distributed_cpu/gloo.csv`, or with `--measure` measures rows of this machine first. Each process has
one thread. Both measure at the same time, as both compute at the same time: all-reduces and transfers of 4 KiB to 16 MiB give
latency and bandwidth; each cell's operators are profiled between two blocks of its iterations. Predicted: operators, optimizer
and all-reduces one after another (gloo's transfers are work of the same cores, so nothing overlaps them), and for the pipeline
the schedule's simulation. Nothing is fitted to the iterations.

`--links` measures the links alone: FILE.csv holds the all-reduces (``read_all_reduces`` makes of it what a ``Cluster`` takes as
``measured``), and a [[link]] for ``load_links`` is printed. On a busy machine these times tell of its load.
"""

from __future__ import annotations

import os
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.models.graph import ModelBlock, Operator, Weight
from epochcast.analyzer.backends.distributed.models.trace import trace
from epochcast.analyzer.backends.distributed.plan.job import ScheduleName, precision_named
from epochcast.analyzer.backends.distributed.plan.schedule import StageTimes, pipeline_seconds
from lab.convmeter.device import cpu_name
from lab.distributed.all_reduces import AllReduceTable, fit_all_reduce
from lab.distributed.profile import ProfiledTimes
from lab.speed.distributed.gloo_training import RANKS, Mlp, data_parallel, pipeline, tensor_parallel
from lab.speed.page import DISTRIBUTED, ROOT, markdown_table, options, publish

ROWS = ROOT / "data" / "distributed_cpu" / "gloo.csv"
FP32 = precision_named("fp32")
SIZES = [2**power for power in range(12, 25)]
LAYERS = 4
BLOCK_SECONDS = 1.0  # of iterations, between two profiles
ROUNDS = 7
Seconds = Callable[[float], NDArray[np.float64]]


@dataclass(frozen=True)
class Cell:
    """One configuration; ``batch`` is a rank's, in the pipeline that of one micro-batch."""

    parallelism: str
    hidden: int
    batch: int
    micro_batches: int = 1
    schedule: ScheduleName | Literal[""] = ""

    def iteration(self) -> Callable[[], None]:
        """The training iteration of this rank."""
        if self.parallelism == "data":
            return data_parallel(self.hidden, LAYERS, self.batch)
        if self.parallelism == "tensor":
            return tensor_parallel(self.hidden, LAYERS, self.batch)
        assert self.schedule
        return pipeline(self.hidden, LAYERS, self.batch, self.micro_batches, self.schedule)


CELLS = (
    *(Cell(name, hidden, batch) for name in ("data", "tensor") for hidden in (256, 512) for batch in (128, 512)),
    *(Cell("pipeline", 512, 128, count, name) for name in get_args(ScheduleName) for count in (2, 4, 8)),
)


def _seconds(run: Callable[[], object]) -> float:
    """Seconds of one run that both processes begin together."""
    dist.barrier()
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def _median_seconds(run: Callable[[], object], repeats: int) -> float:
    return statistics.median([_seconds(run) for _ in range(repeats + 2)][2:])


def _send_there_and_back(buffer: torch.Tensor) -> None:
    exchange = [dist.send, dist.recv] if dist.get_rank() == 0 else [dist.recv, dist.send]
    for one in exchange:
        one(buffer, 1 - dist.get_rank())


def measured_links() -> tuple[AllReduceTable, AllReduceTable]:
    """Seconds of bytes summed over both ranks, and of bytes sent from one to the other."""
    buffers = [torch.zeros(size // 4) for size in SIZES]
    reduced = [_median_seconds(partial(dist.all_reduce, one), 9) for one in buffers]
    sent = [_median_seconds(partial(_send_there_and_back, one), 9) / 2 for one in buffers]
    return AllReduceTable(np.array(SIZES, float), np.array(reduced)), AllReduceTable(np.array(SIZES, float), np.array(sent))


def predicted(cell: Cell, all_reduce: Seconds, send: Seconds) -> dict[str, float]:
    """Seconds of the iteration, and what they are made of, from operators measured now and seconds of bytes."""
    share = RANKS if cell.parallelism == "tensor" else 1
    with torch.device("meta"):
        module = Mlp(cell.hidden, 4 * cell.hidden // share, LAYERS)
        inputs = torch.empty(cell.batch, cell.hidden)
    graph = trace(module, (inputs,), FP32, "cpu")
    whole = (graph.before, *graph.blocks, graph.after)
    weights = [weight for block in whole for weight in block.weights]
    times = ProfiledTimes("cpu", FP32, most_rounds=ROUNDS)
    times.seconds([*(one for block in whole for one in block.operators), *map(_added, weights)])  # in the same rounds

    def seconds(blocks: tuple[ModelBlock, ...], phase: str) -> float:
        return float(times.seconds([one for block in blocks for one in block.operators if one.phase == phase]).sum())

    activations = 4.0 * cell.batch * cell.hidden
    if cell.parallelism == "pipeline":
        half, chunks = LAYERS // RANKS, []
        for stage in ((graph.before, *graph.blocks[:half]), (*graph.blocks[half:], graph.after)):
            own = [weight for block in stage for weight in block.weights]
            # Gradients of every micro-batch but the first are added to those that are there.
            added = float(times.seconds([_added(weight) for weight in own]).sum()) * (1 - 1 / cell.micro_batches)
            chunks.append(StageTimes(seconds(stage, "forward"), seconds(stage, "backward") + added, float(send(activations))))
        assert cell.schedule
        optimizer = times.optimizer_seconds([weight for block in whole[: 1 + half] for weight in block.weights], "sgd")
        compute = max(cell.micro_batches * (chunk.forward + chunk.backward) for chunk in chunks)
        together = pipeline_seconds(chunks, RANKS, cell.micro_batches, cell.schedule) + optimizer
    else:
        compute = seconds(whole, "forward") + seconds(whole, "backward")
        optimizer = times.optimizer_seconds(weights, "sgd")
        if cell.parallelism == "data":
            communication = float(all_reduce(sum(weight.tensor.bytes for weight in weights)))
        else:
            communication = 2 * LAYERS * float(all_reduce(activations))
        together = compute + communication + optimizer
    return {
        "predicted_s": together,
        "compute_s": compute,
        "optimizer_s": optimizer,
        "waiting_and_communication_s": together - compute - optimizer,
    }


def _added(weight: Weight) -> Operator:
    return Operator(
        "aten.add_.Tensor", "elementwise", "backward", (weight.tensor,) * 2, (weight.tensor,), arguments=(weight.tensor,) * 2
    )


def measure(rank: int, port: int, file: Path, links_alone: bool) -> None:
    """One of the processes; the first writes the file."""
    torch.set_num_threads(1)
    os.environ |= {"GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    reduced, sent = measured_links()
    # Over two ranks an all-reduce sends as many bytes as it sums, so that the same line holds for a transfer.
    all_reduce, send = (fit_all_reduce(table, RANKS) for table in (reduced, sent))
    if links_alone:
        if rank == 0:
            table = {"bytes": SIZES, "gpu": "gloo", "gpus": RANKS, "time_ns": (1e9 * reduced.measured).round().astype(int)}
            pd.DataFrame(table).to_csv(file, index=False)
            print(f"# load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
            print('[[link]]\nname = "gloo"\nkind = "loopback"\nmeasured = true')
            print(f"bandwidth = {send.bandwidth:.3g}\nlatency = {send.latency:.3g}")
    else:
        rows = []
        for cell in CELLS:
            rows.append(trained_and_predicted(cell, all_reduce.seconds, send.seconds))
            if rank == 0:
                pd.DataFrame(rows).to_csv(file, index=False, float_format="%.6g")
    dist.destroy_process_group()


def trained_and_predicted(cell: Cell, all_reduce: Seconds, send: Seconds) -> dict[str, object]:
    """The row of a cell."""
    torch.manual_seed(0)
    iteration = cell.iteration()
    count = torch.tensor(min(max(round(BLOCK_SECONDS / _median_seconds(iteration, 3)), 5), 40))
    dist.broadcast(count, 0)
    runs, answers = [_seconds(iteration) for _ in range(int(count))], []
    for _ in range(2):
        dist.barrier()
        answers.append(predicted(cell, all_reduce, send))
        dist.barrier()
        runs += [_seconds(iteration) for _ in range(int(count))]
    low, middle, high = statistics.quantiles(runs, n=4)
    return {
        **asdict(cell),
        "measured_s": middle,
        "measured_iqr_s": high - low,
        "iterations": len(runs),
        **{name: statistics.mean(answer[name] for answer in answers) for name in answers[0]},
        "all_reduce_1mib_s": float(all_reduce(2**20)),
        "send_1mib_s": float(send(2**20)),
        "load": os.getloadavg()[0],
        "cpu": cpu_name(),
        "torch": torch.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def lines(rows: pd.DataFrame) -> Iterator[str]:
    """Every cell, and errors by parallelism."""
    rows["error"] = 100 * (rows.predicted_s / rows.measured_s - 1)
    yield f"{rows.cpu[0]}, {RANKS} processes of 1 thread, torch {rows.torch[0]}, {rows.date[0]}"
    yield f"load average {rows.load.min():.1f} to {rows.load.max():.1f}, of which these processes are {RANKS}"
    yield f"gloo: 1 MiB all-reduced in {1e3 * rows.all_reduce_1mib_s[0]:.2f} ms, sent in {1e3 * rows.send_1mib_s[0]:.2f} ms"
    yield ""
    table = [
        (
            row.parallelism,
            str(row.hidden),
            str(row.batch),
            f"{row.micro_batches} {row.schedule}" if row.parallelism == "pipeline" else "-",
            f"{1e3 * row.measured_s:.1f} ({1e3 * row.measured_iqr_s:.1f})",
            f"{1e3 * row.predicted_s:.1f}",
            f"{1e3 * row.waiting_and_communication_s:.1f}",
            f"{row.error:+.1f} %",
        )
        for row in cast("Iterator[Any]", rows.itertuples(index=False))
    ]
    measured = ("measured ms (IQR)", "predicted ms", "not computing, ms", "error")
    yield from markdown_table(("parallelism", "hidden", "batch", "micro-batches", *measured), table)
    yield ""
    for name, group in [*rows.groupby("parallelism", sort=False), ("all", rows)]:
        error = group.error.abs()
        yield f"{name}: MAPE {error.mean():.1f} %, median {error.median():.1f} %, n = {len(group)}"


def main() -> None:
    """Measure if asked to, and report."""
    parser = options(__doc__)
    parser.add_argument("--measure", type=Path, metavar="FILE.csv", help="measure rows of this machine into this file")
    parser.add_argument("--links", type=Path, metavar="FILE.csv", help="measure links alone, all-reduces into this file")
    chosen = parser.parse_args()
    if (file := chosen.links or chosen.measure) is not None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        mp.spawn(measure, (port, file, chosen.links is not None), nprocs=RANKS)
    if chosen.links is None:
        rows = pd.read_csv(chosen.measure or ROWS, keep_default_na=False)
        publish(DISTRIBUTED, "GLOO", lines(rows), write=chosen.write)


if __name__ == "__main__":
    main()
