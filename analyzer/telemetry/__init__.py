"""Where telemetry comes from while jobs run: one file per kind of source, opened by `settings`.

A source is polled; what it gives are samples of GPUs (`Rows`), or what a node's own analyzer found (`NodeReport`). It keeps its
own cursor, so that nothing is read twice; after a start it gives what it still holds of the past.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.telemetry.gpu_report import EpochRecord, GpuDevice, Owner, Report


class TelemetryError(ConnectionError):
    """A source did not answer, or not as expected; one sentence. The watcher counts it and polls again later."""


ENDED_S = 600.0
"""A GPU of which nothing has come for so long is searched as a whole, and its detector is dropped."""


@dataclass(frozen=True)
class Rows:
    """New samples of one GPU.

    Attributes:
        device: which GPU.
        time: (n,) unix seconds, ascending.
        values: metric of the catalogue -> (n,) base units, NaN where there is no reading.
        hertz: samples per second of the source.
        owners: processes on the GPU; None where the source was not queried this time.
        ended: whether the source has written nothing more for `ENDED_S`.
    """

    device: GpuDevice
    time: NDArray[np.float64]
    values: Mapping[str, NDArray[np.float64]]
    hertz: float
    owners: tuple[Owner, ...] | None = None
    ended: bool = False


@dataclass(frozen=True)
class NodeReport:
    """What a node's analyzer reports of one GPU.

    Attributes:
        report: the newest.
        epochs: with their profiles, oldest first: those that ended, or whose boundaries were found again, since the last poll;
            after a start all that the node still holds. One that overlaps a known epoch by more than half takes its place.
    """

    report: Report
    epochs: tuple[EpochRecord, ...] = ()


class TelemetrySource:
    """What the watcher polls.

    Attributes:
        kind: ``agent``, ``node``, ``prometheus`` or ``files``; ``simulated`` of a demo.
        name: its address; with ``kind`` the labels of its metrics.
        interval_s: seconds between two polls.
        problems: sentences on what is wrong at what it reads, by its last answer: a node's agent that does not answer.
    """

    kind: str
    name: str
    interval_s: float
    problems: Sequence[str] = ()

    @property
    def clock_offset_s(self) -> float | None:
        """Its clock minus this machine's, by its last answer; None of what has no clock."""
        return None

    def poll(self) -> Sequence[Rows | NodeReport]:
        """What is new since the last poll.

        Raises:
            TelemetryError: nothing could be read; the next poll requests the same again.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Let go of connections."""
