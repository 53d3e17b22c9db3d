"""A plain training loop in a process of its own that trains as many iterations as it is asked for, and tells their times."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch

from epochcast.analyzer.backends.distributed.precision import precision_named

from .small_models import SMALL_MODELS


@dataclass(frozen=True)
class Cell:
    """One training configuration: model by name, batch size and precision."""

    model: str
    batch: int
    precision: str


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def train(pipe: Connection, threads: int, clock: str) -> None:
    """Serve ``(cell, iterations)``: answer the seconds and the page faults of each iteration; end at None."""
    now = CLOCKS[clock]
    torch.set_num_threads(threads)
    current, trained = None, None
    while (asked := pipe.recv()) is not None:
        cell, iterations = asked
        if cell != current:
            trained = None  # frees the last one first
            trained, current = _iteration(cell), cell
        answer = []
        for _ in range(iterations):
            faults, begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, now()
            trained()
            answer.append((now() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults))
        pipe.send(answer)


def _iteration(cell: Cell):
    model = next(one for one in SMALL_MODELS if one.name == cell.model)
    precision = precision_named(cell.precision)
    module, inputs = model.ready(cell.batch, precision, "cpu")
    if model.optimizer == "adam":
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    else:
        optimizer = torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9)

    def iteration() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision.autocast is not None):
            loss = module(*inputs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return iteration


class Trainer:
    """The loop's other end."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def run(self, cell: Cell, iterations: int) -> list[tuple[float, int]]:
        """Seconds and page faults of each iteration."""
        self._pipe.send((cell, iterations))
        return self._pipe.recv()


@contextmanager
def trainer(threads: int, clock: str) -> Iterator[Trainer]:
    """Start the loop's process; it ends with the block."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=train, args=(theirs, threads, clock), daemon=True)
    process.start()
    theirs.close()
    try:
        yield Trainer(ours)
        ours.send(None)
        process.join(10)
    finally:
        process.kill()
