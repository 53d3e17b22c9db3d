"""Real training iterations on this CPU against the sum of their profiled operators; part `CPU` of docs/distributed.md.

    python -m lab.speed.distributed.cpu_iterations [--measure FILE.csv] [--clock cpu] [--write]

Reports the rows of `data/distributed_cpu/iterations.csv`, or with `--measure` measures rows of this machine first. Every cell
(model x batch size x precision) is trained by a plain loop in another process; in turn with it, every unique operator of its
traced graph is profiled here, so that other load on the machine disturbs both. Measured: the median over all iterations.
Predicted: the median over blocks of the sum of operators and optimizer step. Nothing is fitted. One thread each.

Next to it, what a predictor that is blind to precision gives on the same rows: the FP32 operators of the same model and batch
(as vTrain profiles), and these divided by one speed-up, the median of the other models' measured ones.

On a machine that others use, ``--clock cpu`` counts the processor time of both processes instead of the wall clock; with one
thread that is what the wall clock would show on an idle one, but for the caches and the memory that others use.
"""

import multiprocessing
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pandas as pd
import torch

from epochcast.analyzer.backends.distributed.models.trace import trace
from epochcast.analyzer.backends.distributed.plan.job import precision_named
from lab.convmeter.device import cpu_name
from lab.distributed.profile import ProfiledTimes
from lab.distributed.timing import CpuClock
from lab.speed.distributed.small_models import CLOCKS, SMALL_MODELS, Cell, train
from lab.speed.page import DISTRIBUTED, ROOT, markdown_table, options, publish

PRECISIONS = ("fp32", "bf16", "amp-bf16")
ROWS = ROOT / "data" / "distributed_cpu" / "iterations.csv"
WARM_UP_ITERATIONS = 3
BLOCKS = 3
BLOCK_SECONDS = 0.8  # of training, between two profiles
ROUNDS = 5  # of one profile


def measure(file: Path, clock: str) -> None:
    """Measure all cells; the file is written again after each."""
    cells = [Cell(name, batch, one) for name, model in SMALL_MODELS.items() for batch in model.batches for one in PRECISIONS]
    rows = []
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn, initializer=torch.set_num_threads, initargs=(1,)) as other:
        for cell in cells:
            rows.append(
                measured(cell, partial(lambda cell, count: other.submit(train, cell, count, clock).result(), cell), clock)
            )
            pd.DataFrame(rows).to_csv(file, index=False, float_format="%.6g")
            print(f"{len(rows)}/{len(cells)} {cell}", file=sys.stderr)


def measured(cell: Cell, run: Callable[[int], list[tuple[float, int]]], clock: str) -> dict[str, object]:
    """Train one cell (``run``: so many iterations) and profile it in turn."""
    model, precision = SMALL_MODELS[cell.model], precision_named(cell.precision)
    module, inputs = model.ready(cell.batch, precision, "meta")
    graph = trace(module, inputs, precision, "cpu", name=cell.model)
    parts = (graph.before, *graph.blocks, graph.after)
    operators = [one for block in parts for one in block.operators]
    weights = [one for block in parts for one in block.weights if not (block is graph.after and one.name in graph.tied)]
    warm = run(WARM_UP_ITERATIONS)
    iterations = min(max(round(BLOCK_SECONDS / warm[-1][0]), 3), 20)
    runs, sums, steps = run(iterations), [], []
    for _ in range(BLOCKS):
        times = ProfiledTimes("cpu", precision, most_rounds=ROUNDS, clock=CpuClock(CLOCKS[clock]))
        sums.append(float(times.seconds(operators).sum()))
        steps.append(times.optimizer_seconds(weights, model.optimizer))
        runs += run(iterations)
    low, middle, high = statistics.quantiles([seconds for seconds, _ in runs], n=4)
    predictions = [a + b for a, b in zip(sums, steps, strict=True)]
    return {
        **asdict(cell),
        "clock": clock,
        "measured_s": middle,
        "measured_iqr_s": high - low,
        "iterations": len(runs),
        "predicted_s": statistics.median(predictions),
        "predicted_range_s": max(predictions) - min(predictions),
        "operators_s": statistics.median(sums),
        "optimizer_s": statistics.median(steps),
        "optimizer": model.optimizer,
        "parameters": graph.parameters(),
        "operators": len(operators),
        "unique": len(set(operators)),
        "estimated": " ".join(sorted({one.name for one in times.estimated})),
        "page_faults": statistics.median(faults for _, faults in runs),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
        "cpu": cpu_name(),
        "torch": torch.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def with_errors(rows: pd.DataFrame) -> pd.DataFrame:
    """Errors in % of the prediction, of FP32 operators of the same model and batch (blind), and of these over one factor."""
    fp32 = rows[rows.precision == "fp32"].set_index(["model", "batch"])
    keys = pd.MultiIndex.from_frame(rows[["model", "batch"]])
    blind = fp32.predicted_s.reindex(keys).to_numpy()
    ratio = fp32.measured_s.reindex(keys).to_numpy() / rows.measured_s
    others = [ratio[(rows.model != row.model) & (rows.precision == row.precision)].median() for row in rows.itertuples()]
    seconds = {"predicted": rows.predicted_s, "blind": blind, "speed_up": blind / others}
    return rows.assign(**{name: 100 * (one / rows.measured_s - 1) for name, one in seconds.items()})


def lines(rows: pd.DataFrame) -> Iterator[str]:
    """Errors over all rows and by precision, model and batch size."""
    rows = with_errors(rows)
    yield f"{rows.cpu[0]}, {rows.threads[0]} thread(s), torch {rows.torch[0]}, {', '.join(sorted(set(rows.date)))}"
    yield f"{rows.clock[0]} clock, load average {rows.load.min():.1f} to {rows.load.max():.1f} while measuring"
    yield ""
    small = rows.batch == rows.groupby("model").batch.transform("min")
    groups = {"all": rows, "reduced precision": rows[rows.precision != "fp32"]}
    groups |= {name: rows[rows.precision == name] for name in PRECISIONS}
    groups |= {str(name): own for name, own in rows.groupby("model", sort=False)}
    groups |= {"large batch": rows[~small], "small batch": rows[small]}
    table = []
    for name, own in groups.items():
        error, bias = own.predicted.abs(), own.predicted.median()
        figures = f"{error.mean():.1f} / {error.median():.1f} / {error.max():.1f} %, {bias:+.1f} %"
        table.append((name, str(len(own)), figures, f"{own.blind.abs().mean():.1f} %", f"{own.speed_up.abs().mean():.1f} %"))
    header = ("rows", "n", "profile: MAPE / median / worst, bias", "FP32 operators: MAPE", "one speed-up: MAPE")
    yield from markdown_table(header, table)
    spread = 100 * rows.measured_iqr_s / rows.measured_s
    estimated = sorted(set(" ".join(rows.estimated.dropna().astype(str)).split()))
    yield ""
    yield f"spread of measured iterations (IQR): median {spread.median():.1f} %, worst {spread.max():.1f} %"
    yield f"not run but estimated by bytes: {estimated or 'none'}"


def main() -> None:
    """Measure if asked to, and report."""
    parser = options(__doc__)
    parser.add_argument("--measure", type=Path, metavar="FILE.csv", help="measure rows of this machine into this file")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="[default: %(default)s]")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.measure is not None:
        measure(chosen.measure, chosen.clock)
    rows = pd.read_csv(chosen.measure or ROWS)
    publish(DISTRIBUTED, "CPU", lines(rows[rows.clock == chosen.clock].reset_index(drop=True)), write=chosen.write)


if __name__ == "__main__":
    main()
