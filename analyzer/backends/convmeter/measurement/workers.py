"""The processes that measure together: one, or as many as ``torchrun`` started, one per device."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

_PATIENCE = timedelta(seconds=300)  # one that died in an exchange ends the others after it


@dataclass(frozen=True)
class Workers:
    """This process among them.

    Attributes:
        rank: 0 writes.
        devices: of all nodes together.
        on_this_node: how many of them.
        launched: by ``torchrun``, be it a single one.
    """

    rank: int = 0
    devices: int = 1
    on_this_node: int = 1
    launched: bool = False

    @property
    def nodes(self) -> int:
        """Machines."""
        return self.devices // self.on_this_node

    def all_are(self, ready: bool) -> bool:
        """Whether every process says so."""
        if self.devices == 1:
            return ready
        flag = torch.tensor(int(ready))
        dist.all_reduce(flag, dist.ReduceOp.MIN)
        return bool(flag)

    def as_first(self, value: Any) -> Any:
        """What the first process gives, in all of them."""
        if self.devices == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, 0)
        return box[0]


@contextmanager
def workers(device: str) -> Iterator[Workers]:
    """Join the processes of ``torchrun`` where it started this one; alone otherwise."""
    if "WORLD_SIZE" not in os.environ:
        yield Workers()
        return
    rank, devices = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if devices == 1:
        yield Workers(launched=True)
        return
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # Decisions are exchanged on the CPU in either case.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        yield Workers(rank, devices, int(os.environ["LOCAL_WORLD_SIZE"]), launched=True)
        dist.barrier()  # one that leaves while another still reads its last answer can end that with an abort
    finally:
        dist.destroy_process_group()
