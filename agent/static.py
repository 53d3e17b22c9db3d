"""The static attributes of each GPU: from its source, from CUDA, and from its compute capability.

Names and units are those of the GPU catalogue (``regressor/gpus.toml``) wherever the thing is the same. What only that
catalogue knows (TDP, nominal memory, tensor FLOP/s) is for the analyzer to add.
"""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from epochcast.agent.sources import Attribute, Device
from epochcast.architectures import figures_of

log = logging.getLogger(__name__)

CUDA_TIMEOUT_S = 20.0  # cuInit takes seconds on a node of eight GPUs without persistence mode
THREADS_PER_WARP = 32
BITS_PER_BYTE = 8
TRANSFERS_PER_CLOCK = 2  # the memory clocks that CUDA and NVML report are command clocks

# What this room calls otherwise when NVML reads it: name in the catalogue → name in the NVML source.
SAME = {"boost_clock": "max_sm_clock", "memory_clock": "max_memory_clock"}

# In this order, for a later line may need an earlier one: name, what it follows from, how. FLOP/s count a multiply-add as two
# and leave tensor cores out, bytes/s are of the memory at its highest clock: both are peaks.
DERIVED: tuple[tuple[str, tuple[str, ...], Callable[..., float | int]], ...] = (
    ("sm_count", ("cuda_cores", "cuda_cores_per_sm"), lambda cores, per_sm: cores // per_sm),
    ("cuda_cores", ("sm_count", "cuda_cores_per_sm"), lambda sms, per_sm: sms * per_sm),
    ("tensor_cores", ("sm_count", "tensor_cores_per_sm"), lambda sms, per_sm: sms * per_sm),
    ("max_warps_per_sm", ("max_threads_per_sm",), lambda threads: threads // THREADS_PER_WARP),
    ("fp32_flops", ("cuda_cores", "boost_clock"), lambda cores, hertz: 2 * cores * hertz),
    ("fp64_flops", ("fp32_flops", "fp32_to_fp64_ratio"), lambda flops, ratio: flops / ratio),
    ("fp16_flops", ("fp32_flops", "fp16_to_fp32_ratio"), lambda flops, ratio: flops * ratio),
    (
        "memory_bandwidth",
        ("memory_clock", "memory_bus_width"),
        lambda hertz, bits: TRANSFERS_PER_CLOCK * hertz * bits / BITS_PER_BYTE,
    ),
)

# An instance is a slice of its GPU: the same SMs at the same clock, fewer of them.
OF_WHOLE_GPU = ("compute_capability", "max_sm_clock")

# The least that a process needs to find this package and the driver's library, and nothing that changes what CUDA shows.
ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")

Facts = Mapping[str, float | int | str]


def read_cuda(timeout: float = CUDA_TIMEOUT_S) -> Mapping[str, Facts]:
    """Return CUDA's attributes of each device, by UUID, from a process of its own that gets ``timeout`` seconds; never raises.

    The answer does not change while the driver runs: one call serves as often as the node is looked at again.
    """
    environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    # -P: a folder called epochcast where the agent was started is not this package.
    command = [sys.executable, "-P", "-m", f"{__package__}.cuda_attributes"]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
    except OSError as error:
        return _nothing(f"the process that queries CUDA cannot be started: {error}")
    try:
        answer, complaint = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # a process that hangs in the driver's kernel part outlives its kill
            process.communicate(timeout=1)
        return _nothing(f"the CUDA driver did not answer within {timeout:g} s")
    complaint = complaint.strip()
    if process.returncode != 0:
        return _nothing(complaint.splitlines()[-1] if complaint else f"the CUDA query ended with status {process.returncode}")
    try:
        facts: dict[str, Facts] = json.loads(answer)
    except ValueError as error:
        return _nothing(f"the CUDA query gave no JSON: {error}")
    if complaint:
        log.warning("%s", complaint)
    return facts


def _nothing(reason: str) -> dict[str, Facts]:
    log.info("no static attributes from CUDA: %s", reason)
    return {}


def complete(devices: Sequence[Device]) -> dict[str, dict[str, Attribute]]:
    """Return all static attributes of each device, by UUID and name. Takes seconds where a CUDA driver starts slowly."""
    here = any(device.source not in ("host", "replay") for device in devices)
    return merge(devices, read_cuda() if here else {})


def merge(devices: Sequence[Device], cuda: Mapping[str, Facts]) -> dict[str, dict[str, Attribute]]:
    """Return all static attributes of each device, by UUID and name; ``cuda`` as of `read_cuda`.

    What the device's own source read comes first, then CUDA, then the table by compute capability (``architectures.toml``)
    and what can be computed from all these, both with the source ``table``. A host has its own attributes only.
    """
    partitioned = {device.index for device in devices if device.instance is not None}
    whole = {device.index: device.static for device in devices if device.instance is None}
    completed = {}
    for device in devices:
        facts = dict(device.static)
        if device.instance is not None:
            shared = whole.get(device.index, {})
            facts = {name: shared[name] for name in OF_WHOLE_GPU if name in shared} | facts
        if device.instance is not None or device.index not in partitioned:  # else CUDA shows an instance in its place
            for name, value in _shown_by_cuda(device, cuda).items():
                facts.setdefault(name, Attribute(value, "cuda"))
        for name, own in SAME.items():
            if own in facts:
                facts.setdefault(name, facts[own])
        if "compute_capability" in facts:
            for name, number in figures_of(str(facts["compute_capability"].value)).items():
                facts.setdefault(name, Attribute(number, "table"))
        _derive(facts)
        completed[device.uuid] = facts
    return completed


def _shown_by_cuda(device: Device, cuda: Mapping[str, Facts]) -> Facts:
    """Return CUDA's attributes of this device: found by UUID, else by PCI address."""
    for uuid, facts in cuda.items():
        # CUDA gives the sixteen bytes of a UUID; NVML writes GPU- before them, or MIG- for an instance.
        if uuid.partition("-")[2].lower() == device.uuid.partition("-")[2].lower():
            return facts
    address = device.static.get("pci_bus_id")
    if address is not None:
        for facts in cuda.values():
            if _pci_address(str(facts.get("pci_bus_id"))) == _pci_address(str(address.value)):
                return facts
    return {}


def _pci_address(bus_id: str) -> str:
    """Return ``domain:bus:device.function`` in one spelling: NVML writes eight digits of the domain, CUDA four."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain.lstrip('0')}:{rest}"


def _derive(facts: dict[str, Attribute]) -> None:
    """Add what follows from ``facts`` and is not among them."""
    for name, needed, formula in DERIVED:
        values = [facts[need].value for need in needed if need in facts]
        if name not in facts and len(values) == len(needed) and not any(isinstance(value, str) for value in values):
            facts[name] = Attribute(formula(*values), "table")
