"""What ``epochcast predict-model distributed`` says of one job to a reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..words import count, money, number
from .tables import seconds_text, table, with_prefix

_GIB = 2.0**30

_LABELS = {
    "bubble": "pipeline bubble",
    "tensor_parallel": "tensor-parallel communication",
    "data_parallel": "data-parallel communication",
    "pipeline_parallel": "pipeline communication",
    "optimizer": "optimizer step",
}


def prediction_text(answer: Mapping[str, Any]) -> str:
    """The whole answer; what does not fit is said first."""
    parts = [
        "" if answer["fits"] else answer["verdict"],
        _headline(answer),
        _made_of(answer["parts"], answer["seconds"]),
        _memory(answer),
        "" if answer["mfu"] is None else cost_text(answer["cost"], answer["gpu"], answer["seconds"], answer["iterations"]),
        "\n".join(f"assumed: {note}" for note in answer["assumptions"]),
    ]
    return "\n\n".join(part for part in parts if part)


def job_text(job: Mapping[str, Any]) -> str:
    """``data 8 x tensor 4 x pipeline 2, micro-batch 1, amp-bf16`` with what else is not usual."""
    more = [
        f"{job['recomputation']} recomputation" if job["recomputation"] != "none" else "",
        "ZeRO 1" if job["zero"] else "",
        f"{job['virtual_stages']} virtual stages" if job["virtual_stages"] > 1 else "",
        "sequence parallel" if job["sequence_parallel"] else "",
    ]
    degrees = f"data {job['data']} x tensor {job['tensor']} x pipeline {job['pipeline']}"
    return ", ".join(part for part in (degrees, f"micro-batch {job['micro_batch']}", job["precision"], *more) if part)


def _headline(answer: Mapping[str, Any]) -> str:
    job = answer["job"]
    where = answer["gpu"] if answer["mfu"] is None else f"{answer['gpus']} {answer['gpu']}"
    if answer["inter"]:
        where += f" in nodes of {answer['gpus_per_node']}, {answer['intra']}, {answer['inter']} between nodes"
    elif answer["gpus"] > 1:
        where += f", {answer['intra']}"
    rates = [f"{number(answer['samples_per_second'])} samples/s"]
    if answer["tokens_per_second"] is not None:
        rates.append(f"{number(answer['tokens_per_second'])} tokens/s")
    flops = flops_text(answer["model_flops"] / answer["seconds"] / answer["gpus"])
    lines = [
        f"{answer['model']} on {where}",
        f"{job_text(job)}; global batch {job['global_batch']} in {job['micro_batches']} micro-batches",
        f"{seconds_text(answer['seconds'])} per iteration: {', '.join(rates)}; {flops}"
        + ("" if answer["mfu"] is None else f" per GPU, {100 * answer['mfu']:.1f} % of its peak"),
    ]
    if answer["iterations"] is not None:
        lines.append(f"{answer['iterations']} iterations: {seconds_text(answer['total_seconds'])}")
    return "\n".join(lines)


def _made_of(parts: Mapping[str, Any], seconds: float) -> str:
    compute = sorted(parts["compute"].items(), key=lambda part: -part[1])
    rows = [*compute, *((label, parts[name]) for name, label in _LABELS.items())]
    shown = [(label, seconds_text(value), f"{100 * value / seconds:.1f} %") for label, value in rows if value > 0]
    return table(("part", "time", "share"), shown)


def _memory(answer: Mapping[str, Any]) -> str:
    memory = answer["memory"]
    names = {"weights": "weights", "gradients": "gradients", "optimizer": "optimizer states", "activations": "activations"}
    rows = [(label, f"{memory[name] / _GIB:.2f}") for name, label in names.items()]
    rows += [("in all", f"{memory['total'] / _GIB:.2f}"), ("available", f"{memory['capacity'] / _GIB:.2f}")]
    text = table(("memory" if answer["mfu"] is None else "memory of the fullest GPU", "GiB"), rows)
    return f"{text}\n{answer['verdict']}" if answer["fits"] else text


def cost_text(cost: Mapping[str, Any] | None, gpu: str, seconds: float, iterations: int | None) -> str:
    """What it costs, and on what."""
    if cost is None:
        return f"cost: no on-demand price of a {gpu} is known; give a table of your own with --prices FILE"
    whole = "" if iterations is None else f", {money(cost['usd'])} for {iterations} iterations"
    region = "" if cost["region"] == "any" else f" in {cost['region']}"
    return (
        f"cost: {money(cost['usd_per_iteration'])} per iteration{whole}, on {cost['count']} x {cost['instance']} "
        f"({count(cost['gpus_each'], 'GPU')}) of {cost['cloud']}{region} at {money(cost['usd_per_hour'])}/h (price of "
        f"{cost['price_of']})"
    )


def flops_text(value: float) -> str:
    """FLOP/s with three significant digits."""
    return f"{number(value / 1e12)} TFLOP/s" if value >= 1e12 else with_prefix(value, "FLOP/s")
