"""Predicted against measured iterations of vTrain's runs (64 to 512 A100), every recipe on the same rows.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.distributed.runs [--write]
"""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from epochcast.analyzer.backends.distributed.communication import cluster_for
from epochcast.analyzer.backends.distributed.evaluation import Answers, RunEvaluator, by_rows, by_size, regret, strategy
from epochcast.analyzer.backends.distributed.iteration import prepare
from epochcast.analyzer.backends.distributed.recipes import RECIPES
from epochcast.analyzer.backends.distributed.runs import Run, read_runs

from ..page import DISTRIBUTED

DISTURBED = 10
"""Percent: a run so much slower than the model that was fitted on it and all others is called disturbed."""


def main() -> None:
    """Print the tables; --write puts them into docs/distributed.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="fill docs/distributed.md")
    write = parser.parse_args().write
    table = Path(os.environ.get("EPOCHCAST_SHARED", "../shared")) / "data/distributed/vtrain_multi_node.csv"
    if not table.exists():
        sys.exit(f"{table} is not there; set EPOCHCAST_SHARED")
    lines = report(read_runs(table))
    print("\n".join(lines))
    if write:
        DISTRIBUTED.fill("RUNS", lines)


def report(runs: list[Run]) -> list[str]:
    """Markdown tables over the runs."""
    evaluator = RunEvaluator()
    sizes = sorted({run.group for run in runs}, key=lambda name: float(name.rstrip("B")))
    answers = {name: by_size(evaluator, runs, name) for name in RECIPES}
    lines = [
        f"{len(runs)} runs; coefficients fitted without the size that is told. Percent.",
        "",
        "| recipe | MAPE | median | " + " | ".join(sizes) + " | " + " | ".join(sorted({strategy(run) for run in runs})) + " |",
        "|" + "---|" * (3 + len(sizes) + len({strategy(run) for run in runs})),
    ]
    for name, answer in answers.items():
        lines.append(f"| {name} | {_figures(answer)} | {_by(answer, 'size', sizes)} | {_by(answer, 'parallelism')} |")
    default = answers["default"]
    costs = regret(default)
    costs_text = ", ".join(f"{size} {costs[size]:.1f}" for size in sizes)
    lines += [
        "",
        f"What the configuration predicted to be fastest takes longer than the fastest (default, unseen size): {costs_text} %.",
    ]
    lines += ["", "| learnt from | MAPE | median | over seeds |", "|---|---|---|---|"]
    for rows in (0, 5, 10, 20):
        answer = by_rows(evaluator, runs, rows)
        draws = [draw.mape for draw in answer.by_test().values()]
        spread = f"{min(draws):.1f} to {max(draws):.1f}" if rows else ""
        label = "no run: what is believed" if rows == 0 else f"{rows} random runs, 12 seeds"
        lines.append(f"| {label} | {_figures(answer)} | {spread} |")
    fitted = evaluator.predict(runs, evaluator.fit(runs))
    measured = np.array([run.seconds for run in runs])
    errors = 100 * np.abs(fitted / measured - 1)
    lines.append(f"| all, told themselves (the floor) | {errors.mean():.1f} | {np.median(errors):.1f} | |")
    slow, fast = fitted / measured < 1 - DISTURBED / 100, fitted / measured > 1 + DISTURBED / 100
    kept = 100 * np.abs(default.predicted[~slow] / default.measured[~slow] - 1)
    lines += [
        "",
        f"{slow.sum()} of {len(runs)} runs are more than {DISTURBED} % slower than the model fitted on all, {fast.sum()} "
        f"so much faster. Without the slow ones the default is {kept.mean():.1f} % off for an unseen size (median "
        f"{np.median(kept):.1f}).",
    ]
    unfit = {how: sum(not _fits(evaluator, run, how) for run in runs) for how in ("none", "selective", "full")}
    lines += [
        "",
        f"Memory, by the model: {unfit['none']} of the {len(runs)} would not fit without recomputation, {unfit['selective']} "
        f"with selective, {unfit['full']} with full recomputation, which is why the runs are taken to have used it.",
    ]
    return lines


def _fits(evaluator: RunEvaluator, run: Run, recomputation: str) -> bool:
    """Whether a run would fit into its GPUs with another kind of recomputation."""
    job = replace(run.job, recomputation=recomputation)
    cluster = cluster_for(run.gpu, job.gpus, run.gpus_per_node, run.intra, run.inter)
    return prepare(evaluator.graphs(run).graph(job), job, cluster).memory.fits


def _figures(answer: Answers) -> str:
    return f"{answer.figures.mape:.1f} | {answer.figures.median_ape:.1f}"


def _by(answer: Answers, key: str, names: list[str] | None = None) -> str:
    figures = answer.by(key)
    return " | ".join(f"{figures[name].mape:.1f}" for name in names or figures)


if __name__ == "__main__":
    main()
