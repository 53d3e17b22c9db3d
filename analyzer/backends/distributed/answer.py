"""Answers on distributed training as JSON has them; the command line's texts and the service's answers are made from these."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from ....regressor import Gpu
from ...instances import stale
from .evidence import EXCHANGES, Evidence
from .job import Job
from .memory import out_of_memory
from .prediction import Iteration, Memory
from .predictor import Predictor, model_flops, utilisation
from .rent import Rent


def job_json(job: Job) -> dict[str, Any]:
    """The settings of a job."""
    return vars(job) | {"gpus": job.gpus, "micro_batches": job.micro_batches}


def parts_json(iteration: Iteration) -> dict[str, Any]:
    """What the seconds of an iteration are made of; they add up to it."""
    names = ("bubble", "tensor_parallel", "data_parallel", "pipeline_parallel", "optimizer")
    return {"compute": dict(iteration.compute), **{name: getattr(iteration, name) for name in names}}


def interval_json(iteration: Iteration, evidence: Evidence | None) -> dict[str, Any]:
    """What nine of ten such iterations take at least and at most, in all and by parts; null without evidence."""
    if evidence is None:
        return dict.fromkeys(("low", "high", "parts_low", "parts_high"))

    def scaled(power: int) -> dict[str, Any]:
        factor, exchange = evidence.factor**power, evidence.exchange_factor**power
        parts = parts_json(iteration)
        compute = {kind: seconds * factor for kind, seconds in parts.pop("compute").items()}
        return {"compute": compute} | {
            name: seconds * (exchange if name in EXCHANGES else factor) for name, seconds in parts.items()
        }

    low, high = iteration.seconds / evidence.factor, iteration.seconds * evidence.factor
    return {"low": low, "high": high, "parts_low": scaled(-1), "parts_high": scaled(1)}


def memory_json(memory: Memory) -> dict[str, float | bool]:
    """Bytes on the fullest GPU."""
    return vars(memory) | {"total": memory.total, "fits": memory.fits}


def cost_json(rent: Rent | None, seconds: float, iterations: int | None) -> dict[str, Any] | None:
    """What an iteration of ``seconds`` costs, and N of them; None where no price is known."""
    if rent is None:
        return None
    return {
        **rent_json(rent),
        "usd_per_iteration": rent.usd(seconds),
        "usd": None if iterations is None else rent.usd(seconds * iterations),
    }


def rent_json(rent: Rent) -> dict[str, Any]:
    """What is rented and for how much."""
    return {
        **rent.instance.place,
        "gpus_each": rent.instance.count,
        "count": rent.count,
        "usd_per_hour": rent.usd_per_hour,
        "price_of": rent.instance.date.isoformat(),
    }


def price_notes(rents: Sequence[Rent | None]) -> list[str]:
    """What is to be said of prices that are old."""
    old = stale(list({id(rent.instance): rent.instance for rent in rents if rent is not None}.values()), date.today())
    return [] if old is None else [old]


def iteration_json(
    predictor: Predictor, gpu: Gpu, job: Job, tokens_per_sample: int | None, rent: Rent | None, iterations: int | None
) -> dict[str, Any]:
    """The whole answer on one job; raises InputError for what cannot be predicted."""
    iteration, prepared, graph = predictor.iteration(gpu, job), predictor.prepared(gpu, job), predictor.graphs.graph(job)
    samples = job.global_batch / iteration.seconds
    cluster, memory, evidence = prepared.cluster, prepared.memory, predictor.evidence(gpu, job, iteration)
    return {
        "fits": memory.fits,
        "verdict": out_of_memory(prepared.stages, job, gpu.memory) or _fitting(memory, job),
        "seconds": iteration.seconds,
        **interval_json(iteration, evidence),
        "iterations": iterations,
        "total_seconds": None if iterations is None else iterations * iteration.seconds,
        "samples_per_second": samples,
        "tokens_per_second": None if tokens_per_sample is None else samples * tokens_per_sample,
        "model_flops": model_flops(graph, job),
        "mfu": utilisation(graph, job, gpu, iteration.seconds),
        "parts": parts_json(iteration),
        "memory": memory_json(memory),
        "cost": cost_json(rent, iteration.seconds, iterations),
        "gpu": gpu.name,
        "gpus": job.gpus,
        "gpus_per_node": cluster.gpus_per_node,
        "intra": cluster.intra.name,
        "inter": None if cluster.inter is None else cluster.inter.name,
        "recipe": predictor.recipe,
        "job": job_json(job),
        "evidence": [] if evidence is None else list(evidence.rests_on),
        "assumptions": [*iteration.notes, *(() if evidence is None else evidence.not_measured)],
        "notes": price_notes([rent]),
    }


def _fitting(memory: Memory, job: Job) -> str:
    which = "the fullest GPU" if job.pipeline > 1 else "each GPU"
    return f"fits: {which} needs {memory.total / 2**30:.1f} of {memory.capacity / 2**30:.1f} GiB"
