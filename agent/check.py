"""What this node can measure, from which source, and why not the rest."""

from dataclasses import asdict
from typing import Any

from .catalog import catalog
from .errors import InputError
from .sources import Options, open_source

# The sources that read hardware; a replay reads what was read elsewhere.
LIVE_SOURCES = ("nvml", "host")


def report() -> dict[str, Any]:
    """Return ``gpus`` (devices with what they measure), ``sources`` (which work) and ``problems`` (sentences)."""
    gpus: list[dict[str, Any]] = []
    sources: list[dict[str, Any]] = []
    problems: list[str] = []
    reached: set[str] = set()
    for name in LIVE_SOURCES:
        try:
            source = open_source(name, Options())
        except InputError as problem:
            sources.append({"name": name, "available": False, "reason": str(problem)})
            problems.append(str(problem))
            continue
        sources.append({"name": name, "available": True, "reason": None})
        for device in source.devices:
            reached |= {metric.name for metric in device.metrics}
            gpus.append(
                {
                    "index": device.index,
                    "uuid": device.uuid,
                    "name": device.name,
                    "source": name,
                    "metrics": [metric.name for metric in device.metrics],
                    "unmeasured": dict(device.unmeasured),
                    "static": {attribute: asdict(fact) for attribute, fact in device.static.items()},
                }
            )
            problems += [f"{device.name}: {metric} is not measured: {why}" for metric, why in device.unmeasured.items()]
        source.close()
    missing = [name for name, metric in catalog().items() if name not in reached and metric.gpm is not None]
    if missing:
        problems.append(f"no source of this release reads {', '.join(missing)}: they need DCGM or NVML's GPM")
    return {"gpus": gpus, "sources": sources, "problems": problems}


def text(found: dict[str, Any]) -> str:
    """Return the report for a reader."""
    lines = []
    for source in found["sources"]:
        lines.append(f"source {source['name']}: {'works' if source['available'] else 'does not work'}")
        for gpu in found["gpus"]:
            if gpu["source"] == source["name"]:
                lines.append(f"  {gpu['index']}  {gpu['name']}  {gpu['uuid']}")
                lines.append(f"     measures {', '.join(gpu['metrics'])}")
    lines += ["problems:", *(f"  {problem}" for problem in found["problems"])] if found["problems"] else ["no problems"]
    return "\n".join(lines)
