"""Real data, tensor and pipeline parallelism of two processes over loopback (gloo) against the product's pieces put together.

    python -m benchmarks.distributed.gloo [--out FILE.csv] [--report]

Each process has one thread. Both measure at the same time, as both compute at the same time: all-reduces and transfers of 4 KiB
to 16 MiB give latency and bandwidth; each cell's operators are profiled between two blocks of its iterations. Predicted:
operators, optimizer and all-reduces one after another (gloo's transfers are work of the same cores, so nothing overlaps them),
and for the pipeline the schedule's simulation. Nothing is fitted to the iterations. The file is written anew.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from epochcast.analyzer.backends.distributed.communication import AllReduceTable, fit_all_reduce
from epochcast.analyzer.backends.distributed.graph import Block, Operator, Weight
from epochcast.analyzer.backends.distributed.operator_time.profile import ProfiledTimes, cpu_name
from epochcast.analyzer.backends.distributed.precision import precision_named
from epochcast.analyzer.backends.distributed.schedule import StageTimes, simulate
from epochcast.analyzer.backends.distributed.trace import trace

from .gloo_training import RANKS, Mlp, data_parallel, pipeline, tensor_parallel

OUT = Path(__file__).resolve().parents[2] / "data" / "distributed_cpu" / "gloo.csv"
FP32 = precision_named("fp32")
SIZES = [2**power for power in range(12, 25)]
LAYERS = 4
BLOCK_SECONDS = 1.0  # of iterations, between two profiles
ROUNDS = 7


@dataclass(frozen=True)
class Cell:
    """One configuration; ``batch`` is a rank's, in the pipeline that of one micro-batch."""

    parallelism: str
    hidden: int
    batch: int
    micro_batches: int = 1
    schedule: str = ""


CELLS = (
    *(Cell(name, hidden, batch) for name in ("data", "tensor") for hidden in (256, 512) for batch in (128, 512)),
    *(Cell("pipeline", 512, 128, count, name) for name in ("gpipe", "1f1b") for count in (2, 4, 8)),
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
    if dist.get_rank():
        dist.recv(buffer, 0)
        dist.send(buffer, 0)
    else:
        dist.send(buffer, 1)
        dist.recv(buffer, 1)


@dataclass(frozen=True)
class Links:
    """Seconds of bytes summed over both ranks, and sent from one to the other."""

    all_reduce: Callable[[float], Any]
    send: Callable[[float], Any]


def measured_links() -> Links:
    """Latency and bandwidth of gloo here."""
    buffers = [torch.zeros(size // 4) for size in SIZES]
    reduced = [_median_seconds(lambda one=one: dist.all_reduce(one), 9) for one in buffers]
    sent = [_median_seconds(lambda one=one: _send_there_and_back(one), 9) / 2 for one in buffers]
    # Over two ranks an all-reduce sends as many bytes as it sums, so that the same line holds for a transfer.
    fits = [fit_all_reduce(AllReduceTable(np.array(SIZES, float), np.array(times)), RANKS) for times in (reduced, sent)]
    return Links(fits[0].seconds, fits[1].seconds)


def iteration_of(cell: Cell) -> Callable[[], None]:
    """The cell's training iteration of this rank."""
    if cell.parallelism == "data":
        return data_parallel(cell.hidden, LAYERS, cell.batch)
    if cell.parallelism == "tensor":
        return tensor_parallel(cell.hidden, LAYERS, cell.batch)
    return pipeline(cell.hidden, LAYERS, cell.batch, cell.micro_batches, cell.schedule)


def predicted(cell: Cell, links: Links) -> dict[str, float]:
    """Seconds of the iteration, and what they are made of, from operators measured now."""
    share = RANKS if cell.parallelism == "tensor" else 1
    with torch.device("meta"):
        module = Mlp(cell.hidden, 4 * cell.hidden // share, LAYERS)
        inputs = torch.empty(cell.batch, cell.hidden)
    graph = trace(module, (inputs,), FP32, "cpu")
    whole = (graph.before, *graph.blocks, graph.after)
    weights_of_all = [weight for block in whole for weight in block.weights]
    times = ProfiledTimes("cpu", FP32, most_rounds=ROUNDS)
    times.seconds([*(one for block in whole for one in block.operators), *map(_added, weights_of_all)])  # in the same rounds

    def seconds(blocks: tuple[Block, ...], phase: str) -> float:
        return float(times.seconds([one for block in blocks for one in block.operators if one.phase == phase]).sum())

    activations = 4.0 * cell.batch * cell.hidden
    if cell.parallelism == "pipeline":
        half = LAYERS // RANKS
        stages = ((graph.before, *graph.blocks[:half]), (*graph.blocks[half:], graph.after))
        weights = [[weight for block in stage for weight in block.weights] for stage in stages]
        # Gradients of every micro-batch but the first are added to those that are there.
        again = [float(times.seconds([_added(weight) for weight in stage]).sum()) for stage in weights]
        later = (cell.micro_batches - 1) / cell.micro_batches
        send = float(links.send(activations))
        chunks = [
            StageTimes(seconds(stage, "forward"), seconds(stage, "backward") + later * more, send)
            for stage, more in zip(stages, again, strict=True)
        ]
        timeline = simulate(chunks, RANKS, cell.micro_batches, cell.schedule)
        optimizer = times.optimizer_seconds(weights[0], "sgd")
        compute = max(timeline.busy(rank) for rank in range(RANKS))
        return _parts(timeline.seconds + optimizer, compute, optimizer)
    compute = seconds(whole, "forward") + seconds(whole, "backward")
    optimizer = times.optimizer_seconds(weights_of_all, "sgd")
    if cell.parallelism == "data":
        communication = float(links.all_reduce(sum(weight.tensor.bytes for weight in weights_of_all)))
    else:
        communication = 2 * LAYERS * float(links.all_reduce(activations))
    return _parts(compute + communication + optimizer, compute, optimizer)


def _added(weight: Weight) -> Operator:
    return Operator(
        "aten.add_.Tensor", "elementwise", "backward", (weight.tensor,) * 2, (weight.tensor,), arguments=(weight.tensor,) * 2
    )


def _parts(whole: float, compute: float, optimizer: float) -> dict[str, float]:
    return {
        "predicted_s": whole,
        "compute_s": compute,
        "optimizer_s": optimizer,
        "waiting_and_communication_s": whole - compute - optimizer,
    }


def train_and_predict(rank: int, port: int, out: Path) -> None:
    """One of the processes; the first writes the rows."""
    torch.set_num_threads(1)
    os.environ |= {"GLOO_SOCKET_IFNAME": "lo", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    links = measured_links()
    rows = []
    for cell in CELLS:
        torch.manual_seed(0)
        iteration = iteration_of(cell)
        count = torch.tensor(min(max(round(BLOCK_SECONDS / _median_seconds(iteration, 3)), 5), 40))
        dist.broadcast(count, 0)
        runs = []
        answers = []
        for _ in range(2):
            runs += [_seconds(iteration) for _ in range(int(count))]
            dist.barrier()
            answers.append(predicted(cell, links))
            dist.barrier()
        runs += [_seconds(iteration) for _ in range(int(count))]
        low, middle, high = statistics.quantiles(runs, n=4)
        rows.append(
            {
                **asdict(cell),
                "measured_s": middle,
                "measured_iqr_s": high - low,
                "iterations": len(runs),
                **{name: statistics.mean(answer[name] for answer in answers) for name in answers[0]},
                "all_reduce_1mib_s": float(links.all_reduce(2**20)),
                "send_1mib_s": float(links.send(2**20)),
                "load": os.getloadavg()[0],
                "cpu": cpu_name(),
                "torch": torch.__version__,
                "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            }
        )
        if rank == 0:
            pd.DataFrame(rows).to_csv(out, index=False, float_format="%.6g")
    dist.destroy_process_group()


def report(rows: pd.DataFrame) -> None:
    """Print every cell, and errors by parallelism."""
    rows["error"] = 100 * (rows.predicted_s / rows.measured_s - 1)
    print(f"{rows.cpu[0]}, {RANKS} processes of 1 thread, torch {rows.torch[0]}, {rows.date[0]}")
    print(f"load average {rows.load.min():.1f} to {rows.load.max():.1f}, of which these processes are {RANKS}")
    print(f"gloo: 1 MiB all-reduced in {1e3 * rows.all_reduce_1mib_s[0]:.2f} ms, sent in {1e3 * rows.send_1mib_s[0]:.2f} ms\n")
    print("| parallelism | hidden | batch | micro-batches | measured ms (IQR) | predicted ms | of it not computing | error |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows.itertuples(index=False):
        schedule = f"{row.micro_batches} {row.schedule}" if row.parallelism == "pipeline" else "-"
        print(
            f"| {row.parallelism} | {row.hidden} | {row.batch} | {schedule} | {1e3 * row.measured_s:.1f} "
            f"({1e3 * row.measured_iqr_s:.1f}) | {1e3 * row.predicted_s:.1f} | {1e3 * row.waiting_and_communication_s:.1f} | "
            f"{row.error:+.1f} % |"
        )
    for name, group in [*rows.groupby("parallelism", sort=False), ("all", rows)]:
        print(f"{name}: MAPE {group.error.abs().mean():.1f} %, median {group.error.abs().median():.1f} %, n = {len(group)}")


def main() -> None:
    """Train, predict and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--report", action="store_true", help="measure nothing")
    options = parser.parse_args()
    if not options.report:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        mp.spawn(train_and_predict, (port, options.out), nprocs=RANKS)
    report(pd.read_csv(options.out, keep_default_na=False))


if __name__ == "__main__":
    main()
