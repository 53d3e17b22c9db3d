"""A GPU that the catalogue lacks, as the agent saw it: an entry made of the trace's static attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.words import one_name
from epochcast.regressor import Catalog, Gpu
from epochcast.regressor import InputError as UnknownGpu
from epochcast.regressor.gpus import build_gpu

# Field of a catalogue entry -> the agent's name for it. The agent knows no nominal memory and no TDP: what the driver counts is
# a little less than the former, and the enforced limit is the latter unless somebody lowered it.
_FACTS = {
    "compute_capability": "compute_capability",
    "sm_count": "sm_count",
    "cuda_cores": "cuda_cores",
    "boost_clock": "boost_clock",
    "memory": "memory_total",
    "memory_bandwidth": "memory_bandwidth",
    "tdp": "power_limit",
}
_INTEGERS = ("sm_count", "cuda_cores", "memory")


def gpu_of(name: str, static: Mapping[str, Any], catalog: Catalog) -> Gpu:
    """The catalogue's GPU of this name, else one made of a trace's ``static`` attributes (name -> value, or {"value": …}), else
    the one that a laptop's or a virtual GPU is named after.

    Raises InputError if neither is possible, naming what lacks or what no GPU has; an ambiguous name is refused too.
    """
    try:
        return catalog.resolve(one_name(name) or name)
    except UnknownGpu as unknown:
        values = {field: _value(static.get(fact)) for field, fact in _FACTS.items()}
        lacking = [_FACTS[field] for field, value in values.items() if value is None]
        if lacking and (nearest := catalog.nearest(name)):
            return nearest
        if "ambiguous" in str(unknown) or len(lacking) == len(_FACTS):
            raise
        if lacking:
            raise InputError(
                f"GPU {name!r} is not in the catalogue, and the trace's static attributes lack {', '.join(lacking)}; "
                "describe it in a TOML file and give that with --gpus (setting `gpus` of the service)"
            ) from unknown
        source = "the trace's static attributes"
        figures = {field: round(value or 0) if field in _INTEGERS else value for field, value in values.items()}
        return build_gpu({"name": name, **figures, "unverified": ["tdp"], "source": source}, f"GPU {name!r} by {source}")


def _value(attribute: Any) -> float | None:
    """The attribute as a number above 0; None if it is none."""
    value = attribute.get("value") if isinstance(attribute, Mapping) else attribute
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if 0 < number < float("inf") else None
