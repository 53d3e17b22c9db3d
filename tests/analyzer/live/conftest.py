"""Fixtures of the tests of live detection: simulated jobs, played to a watch in portions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from epochcast.analyzer.live.gpu_watch import GpuWatch
from epochcast.analyzer.live.state_store import GpuChange, StateStore
from epochcast.analyzer.telemetry import Rows
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, GpuDevice, Report
from epochcast.detector import Detection, detect
from epochcast.detector.stream import heard
from epochcast.regressor import Catalog
from lab.simulator import SimulatedTrace, simulate

UUID = "GPU-1"


def device(uuid: str = UUID, name: str = "Tesla T4", source: str = "replay") -> GpuDevice:
    return GpuDevice(uuid, "0", name, "node-1", source=source, simulated=True)


def rows(trace: SimulatedTrace, first: int = 0, last: int | None = None, uuid: str = UUID) -> Rows:
    """Some of a trace's rows."""
    values = {name: column[first:last] for name, column in trace.metrics.items()}
    return Rows(device(uuid, trace.gpu), trace.time[first:last], values, 10.0)


# What is done with an answer is the same for any metrics, and a search of all of them takes three times as long.
FEW = ("dram_active", "sm_active", "power")


def of(trace: SimulatedTrace, names: Sequence[str] = FEW) -> SimulatedTrace:
    """The trace of fewer metrics."""
    return replace(trace, metrics={name: trace.metrics[name] for name in names})


def joined(*traces: SimulatedTrace, pause_s: float) -> SimulatedTrace:
    """Jobs one after the other on one GPU, which rests after each."""
    rest = simulate(0, kind="idle", epochs=1, epoch_s=pause_s)
    time, metrics, starts, ends = [], {name: [] for name in traces[0].metrics}, [], []
    for trace in traces:
        for part in (trace, rest):
            shift = (time[-1][-1] + 0.1 if time else 1.7e9) - part.time[0]
            time.append(part.time + shift)
            starts.append(part.epoch_starts + shift)
            ends.append(part.epoch_ends + shift)
            for name, columns in metrics.items():
                columns.append(part.metrics[name])
    return SimulatedTrace(
        np.concatenate(time),
        {name: np.concatenate(columns) for name, columns in metrics.items()},
        np.concatenate(starts),
        np.concatenate(ends),
        True,
        traces[0].gpu,
    )


class Played:
    """A watch and the store that its news go to."""

    def __init__(self, catalog: Catalog, folder: Path) -> None:
        self.store = StateStore(folder / "state.db")
        self._catalog = catalog
        self.restart()

    def restart(self) -> None:
        """Go on with nothing but the store."""
        known = self.store.epochs(UUID, profiles=False)
        self.watch = GpuWatch(device(), self._catalog, before=self.store.report(UUID), known=known)

    def play(self, trace: SimulatedTrace, first: int = 0, last: int | None = None, portion: int = 40) -> Iterator[Report]:
        """Hand over the trace's rows; the report after each portion."""
        for at in range(first, trace.time.size if last is None else last, portion):
            yield self.take(rows(trace, at, min(at + portion, trace.time.size if last is None else last)))

    def take(self, part: Rows) -> Report:
        """Hand over rows; the report after them."""
        news = self.watch.take(part)
        report = self.watch.report()
        self.store.write_gpus([GpuChange(report, news.epochs, news.instead_of)])
        return report

    def played(self, trace: SimulatedTrace, first: int = 0, last: int | None = None, portion: int = 40) -> Report:
        """The report at the end."""
        return list(self.play(trace, first, last, portion))[-1]

    @property
    def epochs(self) -> list[EpochRecord]:
        return self.store.epochs(UUID)


@pytest.fixture(scope="session")
def searches() -> dict[tuple[object, ...], Detection]:
    return {}


@pytest.fixture(autouse=True)
def remembered(monkeypatch: pytest.MonkeyPatch, searches: dict[tuple[object, ...], Detection]) -> None:
    """The same search twice costs once: what is tested here is what is made of the answers."""

    def once(time: np.ndarray, metrics: dict[str, np.ndarray], **parameters: object) -> Detection:
        key = (time.tobytes(), *((name, row.tobytes()) for name, row in metrics.items()))
        if key not in searches:
            searches[key] = detect(time, metrics, **parameters)
        return searches[key]

    monkeypatch.setattr(heard, "detect", once)


@pytest.fixture
def play(catalog: Catalog, tmp_path: Path) -> Iterator[Callable[[], Played]]:
    """Make a fresh watch with a fresh store."""
    made: list[Played] = []

    def begin() -> Played:
        folder = tmp_path / str(len(made))
        made.append(Played(catalog, folder))
        return made[-1]

    yield begin
    for one in made:
        one.store.close()
