"""Collecting points: measure what the file does not hold yet, until the time is over."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from ....errors import InputError
from ...reader.failures import failure_reason
from ..configuration import Configuration
from .points_file import KernelsFile, Measured, points_file


class Bench(Protocol):
    """What measures configurations."""

    @property
    def place(self) -> Mapping[str, str]:
        """What is the same in all rows: ``device`` and ``software``."""
        ...

    @property
    def gpu(self) -> str:
        """Name in the catalogue of the GPU that the labels are for."""
        ...

    @property
    def labels(self) -> Sequence[str]:
        """Kinds of labels that it gives (``points.LABELS``)."""
        ...

    @property
    def problems(self) -> Sequence[str]:
        """What could not be measured of any configuration, a sentence each."""
        ...

    def measure(self, configuration: Configuration, labels: Sequence[str]) -> Iterator[Measured]:
        """Rows of the labels asked for; raises whatever went wrong."""
        ...

    def recover(self) -> None:
        """Make ready after a failure; raises RuntimeError if that cannot be."""
        ...


@dataclass(frozen=True)
class Collected:
    """What a collection came to.

    Attributes:
        rows: in the file.
        new: of them.
        left: configurations for another run.
        failed: configurations of which something could not be measured.
        reasons: why, and how often.
        problems: what could not be measured of any configuration.
    """

    rows: int
    new: int
    left: int
    failed: int
    reasons: Mapping[str, int] = field(default_factory=dict)
    problems: Sequence[str] = ()


def collect(
    plan: Sequence[Configuration],
    path: Path,
    bench: Bench,
    budget_seconds: float,
    progress: Callable[[int, int], None],
) -> Collected:
    """Measure the plan's configurations in order; each is a row of the file as soon as it is measured.

    Args:
        plan: what to measure.
        path: the table of points, begun or continued; the kernels go into a file beside it.
        bench: what measures.
        budget_seconds: no new configuration begins after it.
        progress: told configurations done and configurations in all.

    Raises:
        InputError: a file holds something else, or cannot be written; the GPU has failed.
    """
    begin = time.monotonic()
    file = points_file(path, bench.place)
    kernels = KernelsFile(path)

    def lacking(one: Configuration) -> list[str]:
        return [labels for labels in bench.labels if {**asdict(one), "gpu": bench.gpu, "labels": labels} not in file]

    missing = [one for one in plan if lacking(one)]
    reasons: Counter[str] = Counter()
    before, done = file.rows, 0
    while done < len(missing) and (done == 0 or time.monotonic() - begin < budget_seconds):
        configuration = missing[done]
        measured: list[Measured] = []
        reason = ""
        try:
            for one in bench.measure(configuration, lacking(configuration)):
                measured.append(one)  # what came before a failure is kept
        except Exception as error:  # a user's network may raise anything
            reason = failure_reason(error)  # the error itself would hold the network's memory
        for one in measured:
            if one.kernels is not None:
                kernels.append(one.row, one.kernels)
            file.append(one.row)
        if reason:
            reasons[reason] += 1
            _recover(bench, configuration, reason)
        done += 1
        progress(done, len(missing))
    problems = tuple(bench.problems)
    return Collected(file.rows, file.rows - before, len(missing) - done, sum(reasons.values()), reasons, problems)


def _recover(bench: Bench, configuration: Configuration, reason: str) -> None:
    try:
        bench.recover()
    except RuntimeError as error:
        what = f"{configuration.network} at batch {configuration.batch} ({reason})"
        raise InputError(
            f"the GPU no longer answers after {what}; start the command again with another --seed, it continues the file"
        ) from error
