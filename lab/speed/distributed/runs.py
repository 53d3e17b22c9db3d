"""Predicted against measured iterations of vTrain's runs (64 to 512 A100), every recipe on the same rows.

Run: python -m lab.speed.distributed.runs [--write]
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

from epochcast.analyzer.backends.distributed.communication.cluster import cluster_for
from epochcast.analyzer.backends.distributed.iteration import prepare
from epochcast.analyzer.backends.distributed.job import Recomputation
from epochcast.regressor.scoring import score
from lab.distributed.runs import MeasuredIteration, read_runs
from lab.evaluate.distributed_protocols import (
    RecipePredictions,
    RunEvaluator,
    by_rows,
    by_size,
    by_split,
    regret,
    strategy,
)
from lab.rivals.distributed import RECIPES
from lab.speed.page import DISTRIBUTED, markdown_table, options, public, publish

DISTURBED = 10
"""Percent: a run so much slower than the model that was fitted on it and all others is called disturbed."""


def lines() -> Iterator[str]:
    """By recipe with a size left out, by how many runs are known, what disturbs, and what fits into memory."""
    runs, evaluator = read_runs(public("distributed/vtrain_multi_node.csv")), RunEvaluator()
    sizes = sorted({run.group for run in runs}, key=lambda name: float(name.rstrip("B")))
    strategies = sorted({strategy(run) for run in runs})
    answers = {name: by_size(evaluator, runs, name) for name in RECIPES}
    yield f"{len(runs)} runs; coefficients fitted without the predicted size. Percent."
    yield ""
    rows = []
    for name, answer in answers.items():
        by = {**answer.by("size"), **answer.by("parallelism")}
        rows.append((name, *figures(answer), *(f"{by[group].mape:.1f}" for group in (*sizes, *strategies))))
    yield from markdown_table(("recipe", "MAPE", "median", *sizes, *strategies), rows)
    default = answers["default"]
    costs = regret(default)
    slowdowns = ", ".join(f"{size} {costs[size]:.1f}" for size in sizes)
    yield ""
    yield f"Slowdown of the configuration predicted to be fastest (default, unseen size): {slowdowns} %."
    yield ""
    learnt = {f"{rows} random runs, 12 seeds": by_rows(evaluator, runs, rows) for rows in (5, 10, 20)}
    floor = by_split(evaluator, runs, runs)
    learnt = {"no run: the priors": by_rows(evaluator, runs, 0), **learnt, "all, predicted themselves (the floor)": floor}
    draws = [[draw.mape for draw in one.by_test().values()] for one in learnt.values()]
    spreads = [f"{min(own):.1f} to {max(own):.1f}" if len(own) > 1 else "" for own in draws]
    yield from markdown_table(
        ("learnt from", "MAPE", "median", "over seeds"),
        [(name, *figures(one), spread) for (name, one), spread in zip(learnt.items(), spreads, strict=True)],
    )
    ratio = floor.predicted / floor.measured
    slow, fast = ratio < 1 - DISTURBED / 100, ratio > 1 + DISTURBED / 100
    kept = score(default.measured[~slow], default.predicted[~slow])
    yield ""
    yield (
        f"{slow.sum()} of {len(runs)} runs are more than {DISTURBED} % slower than the model fitted on all, {fast.sum()} "
        f"so much faster. Without the slow ones the default is {kept.mape:.1f} % off for an unseen size (median "
        f"{kept.median_ape:.1f})."
    )
    unfit = {how: sum(not fits(evaluator, run, how) for run in runs) for how in get_args(Recomputation)}
    yield ""
    yield (
        f"Memory, by the model: {unfit['none']} of the {len(runs)} would not fit without recomputation, {unfit['selective']} "
        f"with selective, {unfit['full']} with full recomputation, so the runs are assumed to have used it."
    )


def fits(evaluator: RunEvaluator, run: MeasuredIteration, recomputation: Recomputation) -> bool:
    """Whether a run would fit into its GPUs with another kind of recomputation."""
    job = replace(run.job, recomputation=recomputation)
    cluster = cluster_for(run.gpu, job.gpus, run.gpus_per_node, run.intra, run.inter)
    return prepare(evaluator.graphs(run).graph(job), job, cluster).memory.fits


def figures(answer: RecipePredictions) -> tuple[str, str]:
    """MAPE and median."""
    return f"{answer.figures.mape:.1f}", f"{answer.figures.median_ape:.1f}"


if __name__ == "__main__":
    publish(DISTRIBUTED, "RUNS", lines(), write=options(__doc__).parse_args().write)
