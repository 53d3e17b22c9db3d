"""UUIDs of MIG instances for sources that know the instances by number only: DCGM and its exporter."""

import contextlib
from collections.abc import Mapping

import pynvml

from epochcast.agent.sources.nvml_gpu import find
from epochcast.agent.sources.nvml_library import DriverError, call

# (UUID of the GPU, GPU instance id) → UUID
MigUuids = Mapping[tuple[str, int], str]


def mig_uuids() -> MigUuids:
    """Return NVML's UUIDs of this node's GPU instances, as the sources nvml and gpm use them; empty without NVML."""
    try:
        call(pynvml.nvmlInit)
    except DriverError:
        return {}
    try:
        return {(device.parent_uuid, device.instance): device.uuid for device in find() if device.instance is not None}
    except DriverError:
        return {}
    finally:
        with contextlib.suppress(DriverError):
            call(pynvml.nvmlShutdown)


def mig_uuid(known: MigUuids, gpu: str, instance: int) -> str:
    """Return the UUID of an instance; where NVML does not see it (a host engine elsewhere), in the form of older drivers."""
    return known.get((gpu, instance), f"MIG-{gpu}/{instance}")
