"""Predicted against measured iterations of public runs on 1 to 512 GPUs, every recipe on the same rows, and what fits.

Run: python -m lab.speed.distributed.runs [--write]
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.communication.cluster import cluster_for
from epochcast.analyzer.backends.distributed.iteration import PreparedJob, prepare
from epochcast.regressor.scoring import Scores, score
from lab.distributed.runs import MeasuredIteration, public_runs
from lab.evaluate.distributed_protocols import RunEvaluator, by_size, regret
from lab.rivals.distributed import RECIPES
from lab.speed.page import DISTRIBUTED, markdown_table, options, publish


def lines() -> Iterator[str]:
    """By recipe with a model left out, the regret of following the default, and what fits into memory."""
    runs, evaluator = public_runs(), RunEvaluator()
    fsdp = np.array([run.job.zero > 0 for run in runs])
    groups = {"vTrain": ~fsdp, "FSDP": fsdp} | {gpu: np.array([run.gpu == gpu for run in runs]) for gpu in _gpus(runs)}
    answers = {name: by_size(evaluator, runs, name) for name in RECIPES}
    yield f"{len(runs)} runs; coefficients fitted without the predicted model. MAPE (median), percent."
    yield ""
    table = []
    for name, answer in answers.items():
        table.append((name, *(_figures(score(answer.measured[own], answer.predicted[own])) for own in groups.values())))
    yield from markdown_table(("recipe", *(f"{name}, {own.sum()}" for name, own in groups.items())), table)
    costs = regret(answers["default"].only(~fsdp))
    yield ""
    yield (
        "Slowdown of the configuration predicted to be fastest (default, unseen size): "
        f"{', '.join(f'{size} {cost:.1f}' for size, cost in sorted(costs.items()))} %."
    )
    yield ""
    ran = [_prepared(evaluator, run).memory.fits for run in runs]
    impossible = list(_impossible(evaluator, runs))
    refused = [not prepared.memory.fits for prepared in impossible]
    own = np.array(ran)
    ran_fsdp, ran_vtrain = (f"{own[each].sum()} of {each.sum()}" for each in (fsdp, ~fsdp))
    yield (
        f"Memory: of the runs that ran, {ran_fsdp} under FSDP and {ran_vtrain} of vTrain's are said to fit; of {len(refused)} "
        f"plans whose states alone exceed the memory, {sum(refused)} are refused."
    )


def _gpus(runs: list[MeasuredIteration]) -> list[str]:
    return sorted({run.gpu for run in runs if run.job.zero > 0})


def _figures(scores: Scores) -> str:
    return f"{scores.mape:.1f} ({scores.median_ape:.1f})"


def _prepared(evaluator: RunEvaluator, run: MeasuredIteration, **changes: int) -> PreparedJob:
    job = replace(run.job, **changes)  # type: ignore[arg-type]
    cluster = cluster_for(run.gpu, job.gpus, run.gpus_per_node, run.intra, run.inter)
    return prepare(evaluator.graphs(run).graph(job), job, cluster)


def _impossible(evaluator: RunEvaluator, runs: list[MeasuredIteration]) -> Iterator[PreparedJob]:
    """The runs under FSDP without any sharding, as far as weights, gradients and states exceed the memory."""
    for run in runs:
        if run.job.zero > 0 and run.job.data > 1:
            prepared = _prepared(evaluator, run, zero=0)
            states: NDArray[np.float64] = np.array(
                [getattr(prepared.memory, name) for name in ("weights", "gradients", "optimizer")]
            )
            if states.sum() > prepared.cluster.gpu.memory:
                yield prepared


if __name__ == "__main__":
    publish(DISTRIBUTED, "RUNS", lines(), write=options(__doc__).parse_args().write)
