"""``epochcast predict-model distributed --search``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any, Literal

import click

from ....regressor import Gpu
from ...backends.distributed.answer import cost_json, interval_json, job_json, memory_json, parts_json, price_notes
from ...backends.distributed.predictor import utilisation
from ...backends.distributed.question import Question
from ...backends.distributed.rent import Rent, cheapest_rent
from ...backends.distributed.search import Candidate, Found, Space, search
from ...errors import InputError
from ...instances import Instance
from ...tables import seconds_text, table
from ...words import money
from .. import progress, terminal
from ..distributed_text import evidence_text

_COUNTS = tuple(2**power for power in range(10))
"""GPUs that are tried within a budget: 1 to 512."""


def search_all(
    question: Question,
    instances: Sequence[Instance],
    gpus_total: Sequence[int],
    budget: float | None,
    iterations: int | None,
    rank_by: Literal["time", "cost"] | None,
    top: int,
    as_json: bool,
) -> int:
    """Print the ranked configurations; 1 where none fits into memory or the budget."""
    if budget is not None and (iterations is None or budget <= 0):
        raise InputError("--budget is USD above 0 for a whole training; say how long it is by --iterations N")
    if not gpus_total and budget is None:
        raise InputError("--search needs the GPUs to search on: --gpus-total N, or --budget USD with --iterations N")
    options, predictor = question.options, question.predictor
    if options["global_batch"] is None:
        raise InputError("--search spreads one global batch in every way; give --global-batch N")
    if options["virtual_stages"] > 1 or options["layers_per_stage"]:
        raise InputError("--virtual-stages and --layers-per-stage are of one job; leave them out of a --search")
    space = Space(
        **{name: options[name] for name in ("data", "tensor", "pipeline", "micro_batch", "recomputation", "zero")},
        precisions=options["precisions"],
    )

    @cache
    def rent_of(gpu: Gpu, count: int) -> Rent | None:
        return cheapest_rent(instances, gpu.name, count, predictor.cluster(gpu, count).gpus_per_node)

    template = question.job(data=1, tensor=1, pipeline=1, micro_batch=1)
    found = search(
        predictor,
        template,
        list(product(question.gpus, gpus_total or _COUNTS)),
        space,
        rent_of,
        progress=lambda done: progress.show(f"{done} configurations fit"),
    )
    progress.clear()
    by = rank_by or ("cost" if len(question.gpus) > 1 and budget is None else "time")
    fitting = len(found.candidates)
    if budget is not None and iterations is not None:
        limit = budget / iterations
        found.candidates = [one for one in found.candidates if one.usd is not None and one.usd <= limit]
    found.rank(by)
    if as_json:
        answer = {
            "model": question.name,
            "ranked_by": by,
            "fitting": fitting,
            "too_large": found.too_large,
            "refused": found.refused,
            "configurations": [_json(question, one, iterations) for one in found.candidates[:top]],
        }
        click.echo(json.dumps(answer, indent=2))
    elif found.candidates:
        terminal.say(_text(question, found, fitting, iterations, top))
        terminal.notes(price_notes([one.rent for one in found.candidates[:top]]))
    if not found.candidates:
        terminal.note(f"{_nothing(found, fitting, budget, iterations)}")
        return 1
    return 0


def _json(question: Question, one: Candidate, iterations: int | None) -> dict[str, Any]:
    iteration, memory, tokens = one.iteration, one.iteration.memory, question.tokens_per_sample
    interval = interval_json(iteration, question.predictor.evidence(one.gpu, one.job, iteration))
    return {
        "gpu": one.gpu.name,
        "gpus": one.job.gpus,
        "job": job_json(one.job),
        "seconds": iteration.seconds,
        "low": interval["low"],
        "high": interval["high"],
        "samples_per_second": one.job.global_batch / iteration.seconds,
        "tokens_per_second": None if tokens is None else tokens * one.job.global_batch / iteration.seconds,
        "mfu": _mfu(question, one),
        "parts": parts_json(iteration),
        "memory": None if memory is None else memory_json(memory),
        "cost": cost_json(one.rent, iteration.seconds, iterations),
    }


def _mfu(question: Question, one: Candidate) -> float:
    return utilisation(question.predictor.graphs.graph(one.job), one.job, one.gpu, one.iteration.seconds)


def _text(question: Question, found: Found, fitting: int, iterations: int | None, top: int) -> str:
    several_gpus = len({one.gpu.name for one in found.candidates}) > 1
    several_counts = len({one.job.gpus for one in found.candidates}) > 1
    header = [*(["gpu"] if several_gpus else []), *(["gpus"] if several_counts else [])]
    header += ["d", "t", "p", "micro-batch", "precision", "recomputation", "ZeRO", "time", "peak", "GiB", "cost"]
    if iterations is not None:
        header += [f"{iterations} iterations", "cost in all"]
    rows = []
    for one in found.candidates[:top]:
        job, memory, usd = one.job, one.iteration.memory, one.usd
        row = [*([one.gpu.name] if several_gpus else []), *([str(job.gpus)] if several_counts else [])]
        row += [str(degree) for degree in (job.data, job.tensor, job.pipeline, job.micro_batch)]
        row += [job.precision, job.recomputation, str(job.zero), seconds_text(one.iteration.seconds)]
        row += [f"{100 * _mfu(question, one):.1f} %", "-" if memory is None else f"{memory.total / 2**30:.1f}"]
        row += ["-" if usd is None else money(usd)]
        if iterations is not None:
            row += [seconds_text(iterations * one.iteration.seconds), "-" if usd is None else money(usd * iterations)]
        rows.append(row)
    counts = sorted({one.job.gpus for one in found.candidates})
    many = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    where = f"{many} {' or '.join(dict.fromkeys(one.gpu.name for one in found.candidates))}"
    lines = [
        f"{question.name}, global batch {question.options['global_batch']}, on {where}",
        f"{fitting} configurations fit, {found.too_large} do not; {len(found.candidates)} ranked, the best {len(rows)}:",
        "",
        table(header, rows),
    ]
    best = found.candidates[0]
    lines += evidence_text(best.iteration, question.predictor.evidence(best.gpu, best.job, best.iteration))
    return "\n".join(lines)


def _nothing(found: Found, fitting: int, budget: float | None, iterations: int | None) -> str:
    if fitting:
        return (
            f"none of the {fitting} configurations that fit into memory trains {iterations} iterations for {money(budget)} "
            "at known prices; raise the budget or name other GPUs"
        )
    return f"none of the {found.too_large} configurations fits into memory; take more GPUs or such with more memory"
