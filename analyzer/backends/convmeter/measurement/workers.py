"""The processes that measure together: a single one, or those that ``torchrun`` started, one per device."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

_PATIENCE = timedelta(seconds=300)  # if a process dies in an exchange, the others end after this time


@dataclass(frozen=True)
class WorkerGroup:
    """This process in its group.

    Attributes:
        rank: 0 writes.
        devices: of all nodes together.
        on_this_node: how many of them.
        launched: by ``torchrun``, even if it is alone.
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
        """Whether all processes are ready."""
        if self.devices == 1:
            return ready
        flag = torch.tensor(int(ready))
        _finish(dist.all_reduce(flag, dist.ReduceOp.MIN, async_op=True))
        return bool(flag)

    def as_first(self, value: Any) -> Any:
        """The value of the first process (of JSON), in all of them."""
        if self.devices == 1:
            return value
        data = json.dumps(value).encode() if self.rank == 0 else b""
        size = torch.tensor(len(data))
        _finish(dist.broadcast(size, 0, async_op=True))
        content = torch.tensor(bytearray(data.ljust(int(size))), dtype=torch.uint8)
        _finish(dist.broadcast(content, 0, async_op=True))
        return json.loads(content.numpy().tobytes())


# Kept to the end: DistributedDataParallel leaves gloo's threads running (torch 2.13), and one that drops the last
# reference to a Python tensor while the interpreter ends aborts the process.
_exchanges: list[dist.Work] = []


def _finish(exchange: dist.Work) -> None:
    exchange.wait()
    _exchanges.append(exchange)


@contextmanager
def workers(device: str) -> Iterator[WorkerGroup]:
    """Join the processes of ``torchrun`` where it started this one; alone otherwise."""
    if "WORLD_SIZE" not in os.environ:
        yield WorkerGroup()
        return
    rank, devices = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if devices == 1:
        yield WorkerGroup(launched=True)
        return
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # Decisions are exchanged on the CPU in either case.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo", timeout=_PATIENCE)
    try:
        yield WorkerGroup(rank, devices, int(os.environ["LOCAL_WORLD_SIZE"]), launched=True)
        dist.barrier()  # a process that leaves while another still reads its last message can abort that
    finally:
        dist.destroy_process_group()
