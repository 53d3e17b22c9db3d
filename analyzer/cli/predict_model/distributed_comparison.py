"""``epochcast predict-model distributed --compare``: time by precision and parallelism, as in the paper's Fig. 1."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...backends.distributed.answer import interval_json, job_json, memory_json
from ...backends.distributed.precision import precision_named, require
from ...backends.distributed.question import Question
from ...backends.distributed.search import available, degrees
from ...errors import InputError
from ...tables import seconds_text, table
from .. import terminal
from .distributed_options import one_of

Degrees = tuple[int, int, int]

_STRATEGY = re.compile(r"(\d+),(\d+),(\d+)")


def compare(question: Question, gpus_total: Sequence[int], strategies: str | None, plot: Path | None, as_json: bool) -> int:
    """Print, and draw, seconds of one iteration for each precision and (d, t, p); what is out of memory is marked."""
    gpu, options = one_of(question.gpus, "--gpu", "--search"), question.options
    total = one_of(gpus_total, "--gpus-total", "--search")
    if (strategies is None) == (total is None):
        raise InputError("--compare needs what to compare: --strategies 'D,T,P D,T,P …', or --gpus-total N for all of N GPUs")
    chosen = list(degrees(total)) if strategies is None else _read(strategies)
    if options["global_batch"] is None:
        raise InputError("--compare trains the same in every way; give --global-batch N")
    rows: list[dict[str, Any]] = []
    refused: dict[Degrees, str] = {}
    for precision in _precisions(question, gpu):
        for data, tensor, pipeline in chosen:
            try:
                job = question.job(data=data, tensor=tensor, pipeline=pipeline, precision=precision)
                iteration, memory = question.predictor.iteration(gpu, job), question.predictor.prepared(gpu, job).memory
            except InputError as error:
                refused[data, tensor, pipeline] = str(error)
                continue
            interval = interval_json(iteration, question.predictor.evidence(gpu, job, iteration))
            rows.append(
                {
                    "job": job_json(job),
                    "seconds": iteration.seconds,
                    "low": interval["low"],
                    "high": interval["high"],
                    "memory": memory_json(memory),
                    "fits": memory.fits,
                }
            )
    if not rows:
        raise InputError(next(iter(refused.values())))
    answer = {
        "model": question.name,
        "gpu": gpu.name,
        "rows": rows,
        "refused": [{"data": d, "tensor": t, "pipeline": p, "why": why} for (d, t, p), why in refused.items()],
    }
    if plot is not None:
        from ...figures import save_figure
        from ...figures.precisions import precisions_figure

        seconds = {_key(row): row["seconds"] if row["fits"] else None for row in rows}
        counts = sorted({row["job"]["gpus"] for row in rows})
        title = f"{question.name}, {' or '.join(map(str, counts))} {gpu.name}, global batch {options['global_batch']}"
        save_figure(precisions_figure(seconds, title), plot)
    terminal.say(json.dumps(answer, indent=2) if as_json else _text(answer), as_is=as_json)
    return 0 if any(row["fits"] for row in rows) else 1


def _read(text: str) -> list[Degrees]:
    found = []
    for part in text.split():
        match = _STRATEGY.fullmatch(part)
        if match is None or "0" in match.groups():
            raise InputError(f"--strategies holds {part!r}; give degrees of data, tensor and pipeline such as 4,2,1")
        found.append((int(match[1]), int(match[2]), int(match[3])))
    if not found:
        raise InputError("--strategies is empty; give degrees of data, tensor and pipeline such as 4,2,1")
    return list(dict.fromkeys(found))


def _precisions(question: Question, gpu: Any) -> Sequence[str]:
    """Those asked for, which the GPU must have; else all that it has."""
    given = dict.fromkeys(question.options["precisions"])
    for name in given:
        require(gpu, precision_named(name))
    return tuple(given) or available(gpu)


def _key(row: dict[str, Any]) -> tuple[Degrees, str]:
    job = row["job"]
    return (job["data"], job["tensor"], job["pipeline"]), job["precision"]


def _text(answer: dict[str, Any]) -> str:
    cells = {_key(row): seconds_text(row["seconds"]) if row["fits"] else "OOM" for row in answer["rows"]}
    strategies, precisions = dict.fromkeys(degrees for degrees, _ in cells), dict.fromkeys(name for _, name in cells)
    rows = [[str(one), *(cells.get((one, name), "-") for name in precisions)] for one in strategies]
    refused = [f"({one['data']}, {one['tensor']}, {one['pipeline']}): {one['why']}" for one in answer["refused"]]
    fastest = [row["seconds"] for row in answer["rows"] if row["fits"]]
    spread = f"the slowest takes {max(fastest) / min(fastest):.2g} times as long as the fastest" if fastest else "nothing fits"
    return "\n".join(
        [
            f"{answer['model']} on {answer['gpu']}: time of one iteration by (data, tensor, pipeline) and precision",
            table(("(d, t, p)", *precisions), rows),
            spread,
            *refused,
        ]
    )
