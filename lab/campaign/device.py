"""The device that a training runs on, and which of the agent's devices that is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.recording.agent_process import agent_process


@dataclass(frozen=True)
class TrainingDevice:
    """Where to train, and what to sample meanwhile.

    Attributes:
        torch: torch's name of it in a process with this ``environment``.
        name: as the agent calls it, e.g. ``Tesla T4``, or the CPU's model.
        uuid: the agent's identity of it: the traces of other devices are dropped.
        source: what the agent reads it from; None: the best that works.
        environment: variables of the training process.
    """

    torch: str
    name: str
    uuid: str
    source: str | None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """The name as a part of a file's name."""
        return re.sub(r"\W+", "-", self.name).strip("-")


def choose_device(wanted: str | None, source: str | None, cuda_devices: int) -> TrainingDevice:
    """The device called ``wanted`` (``cpu``, ``cuda:N``; None: PyTorch's first GPU, else the CPU), read by ``source``.

    N counts as ``nvidia-smi`` does, or along CUDA_VISIBLE_DEVICES where that is set. Raises InputError if it is not there or is
    not what the agent samples, AgentError if no agent starts.
    """
    wanted = wanted or ("cuda:0" if cuda_devices else "cpu")
    match = re.fullmatch(r"cpu|cuda(?::(\d+))?", wanted)
    if match is None:
        raise InputError(f"--device is {wanted!r}; give cpu, or cuda:N for a GPU")
    if wanted == "cpu":
        # Another source than the CPU's own is a user's wish: a simulated GPU, say.
        source = source or "host"
        first = _sampled(source)[0]
        return TrainingDevice("cpu", first["name"], first["uuid"], source, {"CUDA_VISIBLE_DEVICES": ""})
    number = int(match[1] or 0)
    if number >= cuda_devices:
        raise InputError(f"--device is {wanted!r}, but PyTorch sees {cuda_devices} GPUs; give cpu or a lower number")
    chosen = _gpu(_sampled(source), number, os.environ.get("CUDA_VISIBLE_DEVICES"))
    # By its identity: CUDA's own order is by speed, the agent's by the bus.
    return TrainingDevice("cuda:0", chosen["name"], chosen["uuid"], source, {"CUDA_VISIBLE_DEVICES": chosen["uuid"]})


def _sampled(source: str | None) -> list[dict[str, Any]]:
    with agent_process(["--source", source or "auto"]) as agent:
        return agent.devices()


def _gpu(devices: Sequence[dict[str, Any]], number: int, visible: str | None) -> dict[str, Any]:
    """The agent's device that is CUDA's ``number`` among the ``visible`` ones (labels or UUIDs, as CUDA takes them)."""
    entries = visible.split(",") if visible else [device["label"] for device in devices]
    entry = entries[number].strip() if number < len(entries) else ""
    for device in devices:
        if device["source"] != "host" and entry and (device["label"] == entry or device["uuid"].startswith(entry)):
            return device
    read = ", ".join(f"{device['name']} ({device['source']})" for device in devices)
    raise InputError(f"the agent does not read GPU {entry or number}; it reads {read} (see: epochcast-agent check)")
