"""What this node can measure, from which source, and why not the rest."""

from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from epochcast.agent.choose import choose
from epochcast.agent.config import Config
from epochcast.agent.samples import identity
from epochcast.agent.sources import SOURCES, open_source
from epochcast.agent.static import complete
from epochcast.common.errors import InputError

# A replay reads what was read elsewhere.
LIVE_SOURCES = tuple(name for name in SOURCES if name != "replay")

# How a reason ends, NVML's (nvmlErrorString) and DCGM's, where a GPU has none, of fans for instance: nobody can mend that.
_NOT_THERE = ("Not Supported", "not supported by this GPU and driver")


def report(config: Config) -> dict[str, Any]:
    """Return ``gpus`` (the devices with source, reason and what is measured), ``sources`` (which work) and ``problems``."""
    # Each alone first: two host-engine connections of one process at the same time disturb each other.
    sources = [_tried(name, config) for name in LIVE_SOURCES]
    problems = [f"source {source['name']}: {source['reason']}" for source in sources if not source["available"]]
    problems += unsupported()
    try:
        opened, choices = choose(config)
    except InputError as problem:
        return {"gpus": [], "sources": sources, "problems": [*problems, str(problem)]}
    devices = [device for source in opened for device in source.devices]
    static, chosen = complete(devices), {choice.uuid: choice for choice in choices}
    for source in opened:
        source.close()
    gpus = [
        identity(device)
        | {
            "why": chosen[device.uuid].why,
            "refused": dict(chosen[device.uuid].refused),
            "metrics": {metric.name: metric.tier for metric in device.metrics},
            "static": {name: asdict(fact) for name, fact in static[device.uuid].items()},
        }
        for device in devices
    ]
    gpus.sort(key=lambda gpu: (gpu["index"], -1 if gpu["instance"] is None else gpu["instance"]))
    return {"gpus": gpus, "sources": sources, "problems": [*problems, *_unmeasured(gpus)]}


def _unmeasured(gpus: list[dict[str, Any]]) -> list[str]:
    """Return a sentence for each fault that keeps something from being measured, for all metrics and GPUs that it holds for."""
    where: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for gpu in gpus:
        metrics: defaultdict[str, list[str]] = defaultdict(list)
        for metric, why in gpu["unmeasured"].items():
            if not why.endswith(_NOT_THERE):
                metrics[why].append(metric)
        for why, names in metrics.items():
            where[why, tuple(names)].append("host" if gpu["source"] == "host" else f"GPU {gpu['label']}")
    return [f"{', '.join(labels)}: no {', '.join(names)}: {why}" for (why, names), labels in where.items()]


def _tried(name: str, config: Config) -> dict[str, Any]:
    try:
        source = open_source(name, config)
    except InputError as problem:
        return {"name": name, "available": False, "reason": str(problem), "devices": 0}
    source.close()
    return {"name": name, "available": True, "reason": None, "devices": len(source.devices)}


def unsupported(root: Path = Path("/")) -> list[str]:
    """Return a sentence for each accelerator of this machine that no source reads."""
    problems = []
    if (root / "dev/kfd").exists():
        problems.append("an AMD GPU is present (/dev/kfd) but not measured: only NVIDIA GPUs are supported")
    if any((root / "dev").glob("accel[0-9]*")) or any((root / "dev/accel").glob("accel[0-9]*")):
        problems.append(
            "an accelerator other than a GPU is present (/dev/accel*), perhaps a TPU, but not measured: it is not supported"
        )
    return problems


def text(result: dict[str, Any]) -> str:
    """Return the report for a reader."""
    reasons = {source["name"]: source["reason"] for source in result["sources"]}
    lines = []
    for gpu in result["gpus"]:
        lines.append(f"{gpu['label']}  {gpu['name']}  {gpu['uuid']}")
        lines.append(f"   source {gpu['source']}: {gpu['why']}")
        for name, reason in gpu["refused"].items():
            # A source that works nowhere is explained once, below.
            lines.append(f"   not {name}: {'it does not work, see below' if reasons[name] else reason}")
        for tier in ("fast", "slow", "rare"):
            names = [name for name, own in gpu["metrics"].items() if own == tier]
            if names:
                lines.append(f"   {tier}: {', '.join(names)}")
        if absent := [name for name, why in gpu["unmeasured"].items() if why.endswith(_NOT_THERE)]:
            lines.append(f"   not on this device: {', '.join(absent)}")
    lines.append("sources:")
    for name, reason in reasons.items():
        lines.append(f"   {name}: {'does not work: ' + reason.removeprefix(f'source {name!r} ') if reason else 'works'}")
    of_sources = tuple(f"source {name}:" for name in reasons)
    missing = [problem for problem in result["problems"] if not problem.startswith(of_sources)]
    lines += ["not measured:", *(f"   {problem}" for problem in missing)] if missing else []
    return "\n".join(lines)
