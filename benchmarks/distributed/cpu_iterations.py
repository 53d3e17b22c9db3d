"""Real training iterations on this CPU against the sum of their profiled operators.

    python -m benchmarks.distributed.cpu_iterations [--out FILE.csv] [--clock wall] [--threads 1] [--blocks 3] [--report]

Every cell (model x batch size x precision) is trained by a plain loop in another process; in turn with it, every unique
operator of its traced graph is profiled here, so that whatever else the machine does disturbs both. Measured: the median over
all iterations. Predicted: the median over blocks of the sum of operators and optimizer step. Nothing is fitted.

Beside it, what a predictor that is blind to precision gives on the same rows: the FP32 operators of the same model and batch
(as vTrain profiles), and these divided by one speed-up, the median of the other models' measured ones.

On a machine that others use, ``--clock cpu`` counts the processor time of both processes instead of the wall clock; with one
thread that is what the wall clock would show on an idle one, but for the caches and the memory that others use.

Cells that FILE.csv already holds are not measured again; ``--report`` measures nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import torch

from epochcast.analyzer.backends.distributed.operator_time.profile import ProfiledTimes, cpu_name
from epochcast.analyzer.backends.distributed.operator_time.timing import CpuClock
from epochcast.analyzer.backends.distributed.precision import precision_named
from epochcast.analyzer.backends.distributed.trace import trace

from .small_models import SMALL_MODELS
from .training_loop import CLOCKS, Cell, Trainer, trainer

PRECISIONS = ("fp32", "bf16", "amp-bf16")
OUT = Path(__file__).resolve().parents[2] / "data" / "distributed_cpu" / "iterations.csv"
WARM_UP_ITERATIONS = 3
BLOCK_SECONDS = 0.8  # of training, between two profiles
ROUNDS = 5  # of one profile


def measure(cell: Cell, loop: Trainer, blocks: int, clock: str) -> dict[str, object]:
    """Train and profile one cell in turn."""
    model = next(one for one in SMALL_MODELS if one.name == cell.model)
    precision = precision_named(cell.precision)
    module, inputs = model.ready(cell.batch, precision, "meta")
    graph = trace(module, inputs, precision, "cpu", name=cell.model)
    parts = (graph.before, *graph.blocks, graph.after)
    operators = [one for block in parts for one in block.operators]
    weights = [one for block in parts for one in block.weights if not (block is graph.after and one.name in graph.tied)]
    warm = loop.run(cell, WARM_UP_ITERATIONS)
    iterations = min(max(round(BLOCK_SECONDS / warm[-1][0]), 3), 20)
    runs, sums, steps = loop.run(cell, iterations), [], []
    for _ in range(blocks):
        times = ProfiledTimes("cpu", precision, most_rounds=ROUNDS, clock=CpuClock(CLOCKS[clock]))
        sums.append(float(times.seconds(operators).sum()))
        steps.append(times.optimizer_seconds(weights, model.optimizer))
        runs += loop.run(cell, iterations)
    seconds = [run[0] for run in runs]
    low, middle, high = statistics.quantiles(seconds, n=4)
    predictions = [a + b for a, b in zip(sums, steps, strict=True)]
    return {
        "model": cell.model,
        "batch": cell.batch,
        "precision": cell.precision,
        "clock": clock,
        "measured_s": middle,
        "measured_iqr_s": high - low,
        "iterations": len(seconds),
        "predicted_s": statistics.median(predictions),
        "predicted_range_s": max(predictions) - min(predictions),
        "operators_s": statistics.median(sums),
        "optimizer_s": statistics.median(steps),
        "optimizer": model.optimizer,
        "parameters": graph.parameters,
        "operators": len(operators),
        "unique": len(set(operators)),
        "estimated": " ".join(sorted({one.name for one in times.estimated})),
        "page_faults": statistics.median(run[1] for run in runs),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],
        "cpu": cpu_name(),
        "torch": torch.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def with_blind(rows: pd.DataFrame) -> pd.DataFrame:
    """Add ``blind_s`` (FP32 operators of the same model and batch), ``speed_up_s`` (these over one factor), and errors in %."""
    fp32 = rows[rows.precision == "fp32"].set_index(["model", "batch"])
    keys = pd.MultiIndex.from_frame(rows[["model", "batch"]])
    rows = rows.assign(blind_s=fp32.predicted_s.reindex(keys).to_numpy())
    ratio = fp32.measured_s.reindex(keys).to_numpy() / rows.measured_s
    others = [
        ratio[(rows.model != row.model) & (rows.precision == row.precision)].median() for row in rows.itertuples(index=False)
    ]
    rows = rows.assign(speed_up_s=rows.blind_s / others)
    for name in ("predicted", "blind", "speed_up"):
        rows[name] = 100 * (rows[f"{name}_s"] / rows.measured_s - 1)
    return rows


def report(rows: pd.DataFrame) -> None:
    """Print errors over all rows and by precision, model and batch size."""
    rows = with_blind(rows)
    print(f"{rows.cpu[0]}, {rows.threads[0]} thread(s), torch {rows.torch[0]}, {', '.join(sorted(set(rows.date)))}")
    print(f"{rows.clock.iloc[0]} clock, load average {rows.load.min():.1f} to {rows.load.max():.1f} while measuring\n")
    print("| rows | n | profile: MAPE / median / worst, bias | FP32 operators: MAPE | one speed-up: MAPE |")
    print("|---|---|---|---|---|")
    size = rows.batch.where(rows.batch != rows.groupby("model").batch.transform("min"), 0).map(
        lambda b: "large" if b else "small"
    )
    groups = [("all", rows), ("reduced precision", rows[rows.precision != "fp32"])]
    groups += [(name, rows[rows.precision == name]) for name in PRECISIONS]
    groups += [(name, group) for name, group in rows.groupby("model", sort=False)]
    groups += [(f"{name} batch", group) for name, group in rows.groupby(size)]
    for name, group in groups:
        error = group.predicted.abs()
        print(
            f"| {name} | {len(group)} | {error.mean():.1f} / {error.median():.1f} / {error.max():.1f} %, "
            f"{group.predicted.median():+.1f} % | {group.blind.abs().mean():.1f} % | {group.speed_up.abs().mean():.1f} % |"
        )
    spread = 100 * rows.measured_iqr_s / rows.measured_s
    print(f"\nspread of measured iterations (IQR): median {spread.median():.1f} %, worst {spread.max():.1f} %")
    print(f"not run but estimated by bytes: {sorted(set(' '.join(rows.estimated.dropna().astype(str)).split())) or 'none'}")


def main() -> None:
    """Measure what is missing and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--report", action="store_true", help="measure nothing")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    key = ["clock", "model", "batch", "precision"]
    rows = pd.read_csv(options.out) if options.out.exists() else pd.DataFrame(columns=key)
    known = set(rows[key].itertuples(index=False, name=None))
    cells = [Cell(model.name, batch, name) for model in SMALL_MODELS for batch in model.batches for name in PRECISIONS]
    missing = [cell for cell in cells if (options.clock, cell.model, cell.batch, cell.precision) not in known]
    if missing and not options.report:
        begin = time.monotonic()
        with trainer(options.threads, options.clock) as loop:
            for number, cell in enumerate(missing, 1):
                row = measure(cell, loop, options.blocks, options.clock)
                rows = pd.concat([rows, pd.DataFrame([row])], ignore_index=True) if len(rows) else pd.DataFrame([row])
                rows.to_csv(options.out, index=False, float_format="%.6g")
                print(
                    f"{number}/{len(missing)} {time.monotonic() - begin:.0f} s  {cell}  measured {row['measured_s']:.4f} s, "
                    f"predicted {row['predicted_s']:.4f} s",
                    file=sys.stderr,
                )
    rows = pd.read_csv(options.out)
    report(rows[rows.clock == options.clock].reset_index(drop=True))


if __name__ == "__main__":
    main()
