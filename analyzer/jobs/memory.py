"""Whether a job fits into another GPU's memory, from the memory that it took on the source."""

from __future__ import annotations

from dataclasses import dataclass

from epochcast.regressor import Gpu, Profile

GIB = 2.0**30

# Error correction on GDDR6 leaves a T4 or an A10G 92 % of its nominal memory (15 109 of 16 384, 22 731 of 24 576 MiB).
_USABLE = 0.92

# TensorFlow and JAX take nearly all memory at startup, regardless of the model's need (research: 91 to 98 % on four GPUs).
_RESERVED = 0.9


@dataclass(frozen=True)
class MemoryNeed:
    """GPU memory of a job.

    Attributes:
        bytes: the most that was in use, or what the user says.
        reserved: nearly all of the source's memory was in use: perhaps it was only reserved, and less would do.
    """

    bytes: float
    reserved: bool = False

    def fits(self, gpu: Gpu, *, here: bool = False) -> bool | None:
        """Whether the job runs in the memory of ``gpu``; None where that is not known.

        ``here``: the job was seen on it, and took there what it took; but a user can say more than there is.
        """
        if self.bytes <= (1.0 if here else _USABLE) * gpu.memory:
            return True
        return None if self.reserved else False


def memory_need(profile: Profile, gpu: Gpu) -> MemoryNeed | None:
    """What the job took on its source ``gpu``; None where the trace has no ``memory_used``."""
    used = profile.metrics.get("memory_used")
    if used is None:
        return None
    free = profile.metrics.get("memory_free")
    total = gpu.memory if free is None else used["max"] + free["min"]
    return MemoryNeed(used["max"], reserved=used["max"] >= _RESERVED * total)
