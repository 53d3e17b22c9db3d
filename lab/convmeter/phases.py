"""Times a network or block: inference, and training iterations with a mark between their phases."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from epochcast.analyzer.backends.distributed.plan.job import Precision
from lab.convmeter.device import FEWEST_ROUNDS, Timing, timing_of

_WARM_UP = 2  # the first makes the optimiser's states, and on a GPU loads the kernels
_MOST_ROUNDS = 25
_ENOUGH_SECONDS = 0.5
_LEARNING_RATE = 1e-6  # so small that training neither learns nor diverges


class HostTimeline:
    """The host's clock, for work that is done when the call returns.

    Args:
        now: seconds; ``time.process_time`` leaves out what other programs take of the processors, for one thread.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now

    def mark(self) -> float:
        """The time now."""
        return self._now()

    def seconds(self, marks: Sequence[float]) -> list[float]:
        """Differences of the marks."""
        return [after - before for before, after in itertools.pairwise(marks)]


class CudaTimeline:
    """CUDA events: seconds in which the GPU waits for the host count, as they do in training."""

    def mark(self) -> torch.cuda.Event:
        """An event in the current stream."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, marks: Sequence[torch.cuda.Event]) -> list[float]:
        """Elapsed times, after the last event."""
        marks[-1].synchronize()
        return [1e-3 * float(before.elapsed_time(after)) for before, after in itertools.pairwise(marks)]


PhaseTimeline = HostTimeline | CudaTimeline
"""Marks in time on a device, each after all work that the device has so far, and seconds between them."""


def inference(
    module: nn.Module, inputs: tuple[Any, ...], precision: Precision, timeline: PhaseTimeline
) -> Callable[[], tuple[float, ...]]:
    """A function that runs the module once in evaluation mode and returns the seconds ``(inference,)``."""
    module.eval()

    def run() -> tuple[float, ...]:
        begin = timeline.mark()
        with torch.no_grad(), _autocast(inputs, precision):
            output = module(*inputs)
        marks = [begin, timeline.mark()]
        del output  # freed after the last mark
        return tuple(timeline.seconds(marks))

    return run


def training(
    module: nn.Module, inputs: tuple[Any, ...], precision: Precision, timeline: PhaseTimeline
) -> Callable[[], tuple[float, ...]]:
    """A function that trains the module for an iteration and returns the seconds ``(forward, backward, update)``.

    ``forward`` includes the loss, ``update`` Adam's step and dropping the gradients. The loss is cross-entropy where
    the output is a row of scores per image; the output of a block gets a gradient of ones. Autocast has no gradient scaling.

    Raises:
        ValueError: there is nothing to train; when run, the output is not a tensor.
    """
    module.train()
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    rule = torch.optim.Adam(parameters, lr=_LEARNING_RATE)
    gradients: dict[torch.Size, Tensor] = {}

    def run() -> tuple[float, ...]:
        marks = [timeline.mark()]
        with _autocast(inputs, precision):
            output = module(*inputs)
            if not isinstance(output, Tensor):
                raise ValueError(f"networks that return a {type(output).__name__} instead of a tensor cannot be trained here")
            if output.dim() == 2:
                output = nn.functional.cross_entropy(output, torch.zeros(len(output), dtype=torch.long, device=output.device))
        marks.append(timeline.mark())
        if output.dim() and output.shape not in gradients:
            gradients[output.shape] = torch.ones_like(output)
        output.backward(gradients.get(output.shape))
        marks.append(timeline.mark())
        rule.step()
        rule.zero_grad()
        marks.append(timeline.mark())
        for leaf in tree_leaves(inputs):
            if isinstance(leaf, Tensor):
                leaf.grad = None
        return tuple(timeline.seconds(marks))

    return run


def time_phases(run: Callable[[], tuple[float, ...]]) -> tuple[list[Timing], Timing]:
    """Repeat an iteration, as :func:`training` gives it, after warming up: the timing of each phase, and of their sum."""
    for _ in range(_WARM_UP):
        begin = time.perf_counter()
        run()
        last = time.perf_counter() - begin
    rounds = min(max(round(_ENOUGH_SECONDS / last), FEWEST_ROUNDS), _MOST_ROUNDS)
    iterations = [run() for _ in range(rounds)]
    return [timing_of(phase) for phase in zip(*iterations, strict=True)], timing_of([sum(phases) for phases in iterations])


def _autocast(inputs: tuple[Any, ...], precision: Precision) -> torch.autocast:
    kind = next(leaf.device.type for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor))
    dtype = getattr(torch, precision.autocast) if precision.autocast else None
    return torch.autocast(kind, dtype=dtype, enabled=dtype is not None)
