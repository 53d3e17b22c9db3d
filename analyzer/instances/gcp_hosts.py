"""Instances of Google Cloud from SkyPilot's two kinds of rows: hosts without their GPUs, and GPUs without a host.

Paired, in the same zone: ``a2-highgpu-Ng`` and ``a2-megagpu-16g`` with N x A100, ``a2-ultragpu-Ng`` with N x A100-80GB,
``a3-highgpu-Ng`` with N x H100, ``a3-megagpu-8g`` with 8 x H100-MEGA, ``a3-ultragpu-8g`` with 8 x H200, ``a4-highgpu-8g`` with
8 x B200, and ``g2-standard-V`` with as many L4 as its V virtual CPUs come with. K80, P4, P100, T4 and V100 can be attached to
N1 machines of many sizes; here to ``n1-standard`` with 8 virtual CPUs per GPU, which every limit allows
(docs.cloud.google.com/compute/docs/gpus). Not paired: A3 Edge, whose GPUs have another price, and G4.
"""

from __future__ import annotations

import re

_FIXED = {
    "a2-highgpu": "A100",
    "a2-megagpu": "A100",
    "a2-ultragpu": "A100-80GB",
    "a3-highgpu": "H100",
    "a3-megagpu": "H100-MEGA",
    "a3-ultragpu": "H200",
    "a4-highgpu": "B200",
}
_FIXED_NAME = re.compile(r"(a\d-[a-z]+)-(\d+)g")
_L4_BY_VCPUS = {4: 1, 8: 1, 12: 1, 16: 1, 24: 2, 32: 1, 48: 4, 96: 8}
_G2_NAME = re.compile(r"g2-standard-(\d+)")
_ATTACHED = ("K80", "P4", "P100", "T4", "V100")
_VCPUS_PER_ATTACHED = 8
_N1_NAME = re.compile(r"n1-standard-(\d+)")


def accelerators_of(host: str) -> list[tuple[str, int]]:
    """What is priced with a host of this name: (SkyPilot's accelerator name, how many); several for N1, none for most."""
    if (fixed := _FIXED_NAME.fullmatch(host)) and fixed[1] in _FIXED:
        return [(_FIXED[fixed[1]], int(fixed[2]))]
    if (g2 := _G2_NAME.fullmatch(host)) and int(g2[1]) in _L4_BY_VCPUS:
        return [("L4", _L4_BY_VCPUS[int(g2[1])])]
    if n1 := _N1_NAME.fullmatch(host):
        gpus, rest = divmod(int(n1[1]), _VCPUS_PER_ATTACHED)
        return [(name, gpus) for name in _ATTACHED] if gpus and not rest else []
    return []
