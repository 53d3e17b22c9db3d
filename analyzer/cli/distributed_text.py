"""What ``epochcast predict-model distributed`` says of one job to a reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..backends.distributed.evidence import Evidence
from ..backends.distributed.prediction import Iteration
from ..tables import seconds_text, table, with_prefix
from ..words import count, money, number

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
        _made_of(answer),
        _memory(answer),
        "" if answer["mfu"] is None else cost_text(answer["cost"], answer["gpu"], answer["seconds"], answer["iterations"]),
        "\n".join(_sentences(answer["evidence"], answer["assumptions"])),
    ]
    return "\n\n".join(part for part in parts if part)


def evidence_text(best: Iteration, evidence: Evidence | None) -> list[str]:
    """Below the configurations of a search: how sure the first of them is, and why."""
    if evidence is None:
        return _sentences((), best.notes)
    interval = _interval(best.seconds / evidence.factor, best.seconds * evidence.factor)
    return [f"the first{interval}", *_sentences(evidence.rests_on, (*best.notes, *evidence.not_measured))]


def _sentences(rests_on: Sequence[str], assumed: Sequence[str]) -> list[str]:
    return [*(f"rests on: {sentence}" for sentence in rests_on), *(f"assumed: {sentence}" for sentence in assumed)]


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
        f"{job_text(job)}; global batch {job['global_batch']} in {count(job['micro_batches'], 'micro-batch', 'micro-batches')}",
        f"{seconds_text(answer['seconds'])} per iteration{_interval(answer['low'], answer['high'])}: {', '.join(rates)}; "
        + (flops if answer["mfu"] is None else f"{flops} per GPU, {100 * answer['mfu']:.1f} % of its peak"),
    ]
    if answer["iterations"] is not None:
        lines.append(f"{answer['iterations']} iterations: {seconds_text(answer['total_seconds'])}")
    return "\n".join(lines)


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" (90 % interval {seconds_text(low)} to {seconds_text(high)})"


def _made_of(answer: Mapping[str, Any]) -> str:
    parts, low, high = (_flat(answer[name]) for name in ("parts", "parts_low", "parts_high"))
    shown = []
    for label, seconds in parts.items():
        if seconds > 0:
            interval = [f"{seconds_text(low[label])} to {seconds_text(high[label])}"] if low else []
            shown.append((label, seconds_text(seconds), *interval, f"{100 * seconds / answer['seconds']:.1f} %"))
    return table(("part", "time", *(["90 % interval"] if low else []), "share"), shown)


def _flat(parts: Mapping[str, Any] | None) -> dict[str, float]:
    """Kinds of operators, the longest first, then the other parts under their labels."""
    if parts is None:
        return {}
    compute = dict(sorted(parts["compute"].items(), key=lambda part: -part[1]))
    return compute | {label: parts[name] for name, label in _LABELS.items()}


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
