"""A service of a few simulated GPUs, in this process: what its watcher would have written stands in its store."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient

from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.questions import example_profile
from epochcast.analyzer.live.health import WatcherReport
from epochcast.analyzer.live.state_store import GpuChange, StateStore
from epochcast.analyzer.plugins import Settings as PluginSettings
from epochcast.analyzer.plugins.registry import Registry
from epochcast.analyzer.service.analysis import Analysis
from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.config import LimitSettings, Settings
from epochcast.analyzer.service.parts import Parts
from epochcast.analyzer.service.workers import Workers
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, GpuDevice, Owner, Report
from epochcast.detector import Detection
from epochcast.regressor.profile_json import read_profile

SLURM_JOB = "slurm-4711"


def report(number: int, *, slurm_job: str = "", state: str = "answered") -> Report:
    """What is told of GPU ``number``: epochs of the example profile, the newest of which ended just now."""
    profile = read_profile(example_profile())
    assert profile.epoch_s is not None
    now = time.time()
    since = now - 6 * profile.epoch_s
    epochs = [
        EpochRecord(since + n * profile.epoch_s, since + (n + 1) * profile.epoch_s, 0.97, since, profile) for n in range(5)
    ]
    device = GpuDevice(
        f"GPU-8f2c1f0a-{number}",
        str(number),
        "Tesla T4",
        "node-a",
        "replay",
        simulated=True,
        instance="g4dn.xlarge",
        cloud="aws",
    )
    return Report(
        device=device,
        state=state,  # type: ignore[arg-type]
        detection=Detection("epochs", profile.epoch_s, None, (), 0.97, "track", "wall"),
        job_since=since,
        epochs_seen=5,
        epochs=tuple(replace(epoch, profile=None) for epoch in epochs),
        profile=profile,
        owners=(Owner(4000 + number, "python", "ada", slurm_job=slurm_job),),
        last_sample=now,
        samples=1800,
    )


def fill(store: StateStore) -> None:
    """Write two GPUs of a Slurm job, and one by itself."""
    reports = [report(0, slurm_job="4711"), report(1, slurm_job="4711"), report(2)]
    store.write_gpus([GpuChange(one, [replace(epoch, profile=one.profile) for epoch in one.epochs]) for one in reports])


@pytest.fixture(scope="session")
def workers() -> Iterator[Workers]:
    limits = LimitSettings()
    workers = Workers(1, limits.worker_memory_bytes, limits.seconds)
    yield workers
    workers.stop()


@pytest.fixture(scope="session")
def backends() -> Registry:
    return Registry.load(PluginSettings(), {})


@pytest.fixture
def parts(tmp_path: Path, advisor: Advisor, workers: Workers, backends: Registry) -> Iterator[Parts]:
    settings = Settings(state=tmp_path / "state.db", hosts=["testserver"], read_only=False)
    yield from made(settings, fill, advisor, workers, backends)


def made(
    settings: Settings,
    fill: Callable[[StateStore], None],
    advisor: Advisor,
    workers: Workers,
    backends: Registry,
    watcher: Callable[[], WatcherReport] = WatcherReport,
) -> Iterator[Parts]:
    """What a service answers from whose watcher has written what ``fill`` writes, and reports ``watcher``."""
    store = StateStore(settings.state)
    fill(store)
    analysis = Analysis(store, advisor, settings)
    analysis.watcher = watcher
    analysis.round()
    yield Parts(
        settings=settings,
        store=store,
        advisor=advisor,
        analysis=analysis,
        workers=workers,
        backends=backends,
        registry=CollectorRegistry(),
    )
    store.close()


@pytest.fixture
def client(parts: Parts) -> TestClient:
    return TestClient(create_app(parts), raise_server_exceptions=False)
