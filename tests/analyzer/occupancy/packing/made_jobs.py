"""Jobs made by hand."""

from typing import Any

from epochcast.analyzer.backends.occupancy.packing.jobs import PackedJob


def job(name: str = "job", **changed: Any) -> PackedJob:
    """A job of 10 s with 40 % occupancy, 50 % NVML utilisation and 1 GB."""
    given: dict[str, Any] = {"arrival": 0.0, "duration": 10.0, "occupancy": 0.4, "nvml_utilisation": 0.5, "memory": 1e9}
    given |= changed
    given.setdefault("predicted_occupancy", given["occupancy"])
    given.setdefault("predicted_memory", given["memory"])
    return PackedJob(name, **given)
