"""The real service with a made-up fleet, and Chromium to look at it."""

from __future__ import annotations

import json
import pickle
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from prometheus_client import CollectorRegistry
from starlette.testclient import TestClient

from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.live.health import WatcherReport
from epochcast.analyzer.live.state_store import GpuChange, StateStore
from epochcast.analyzer.plugins.registry import Registry
from epochcast.analyzer.service.analysis import Analysis
from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.parts import Parts

from ..conftest import made
from .fleet import fill, watcher


@dataclass(frozen=True)
class Service:
    """A service that answers at ``url``."""

    url: str
    parts: Parts
    server: uvicorn.Server

    def api(self, path: str) -> Any:
        """What the API tells."""
        with urllib.request.urlopen(f"{self.url}/api/v1{path}", timeout=30) as answer:
            return json.load(answer)


class AtOnce:
    """In the place of worker processes, which take seconds to start and have tests of their own: as if to one and back."""

    async def answer(self, function: Callable[..., Any], *args: Any) -> Any:
        function, args = pickle.loads(pickle.dumps((function, args)))
        return pickle.loads(pickle.dumps(function(*args)))


@pytest.fixture(scope="session")
def fleet_parts(tmp_path_factory: pytest.TempPathFactory, advisor: Advisor, backends: Registry) -> Iterator[Parts]:
    """What the service answers from, of the fleet."""
    workers: Any = AtOnce()
    settings = Settings(state=tmp_path_factory.mktemp("page") / "state.db", hosts=["testserver"])
    yield from made(settings, fill, advisor, workers, backends, watcher)


@pytest.fixture
def fresh_parts(fleet_parts: Parts) -> Parts:
    """The same, told of just now: on a busy machine the fleet would fall silent between two tests."""
    reports = fleet_parts.store.reports().values()
    fleet_parts.store.write_gpus([GpuChange(replace(report, last_sample=time.time() - 0.4)) for report in reports])
    fleet_parts.analysis.round()
    return fleet_parts


@pytest.fixture
def service(served: Service, fresh_parts: Parts) -> Service:
    """The fleet's service, on a free port."""
    return served


@pytest.fixture(scope="session")
def served(fleet_parts: Parts) -> Iterator[Service]:
    """Its server."""
    with serving(fleet_parts) as service:
        yield service


@contextmanager
def serving(parts: Parts) -> Iterator[Service]:
    """Answer from these parts on a free port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(create_app(parts), log_config=None, lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive(), "the server has ended"
            time.sleep(0.02)
        yield Service(f"http://127.0.0.1:{listener.getsockname()[1]}", parts, server)
        server.should_exit = True
        thread.join(timeout=20)


@pytest.fixture
def fleet_client(fresh_parts: Parts) -> TestClient:
    """A client of the fleet's service."""
    return TestClient(create_app(replace(fresh_parts, registry=CollectorRegistry())))


@pytest.fixture
def client_of(fleet_parts: Parts, tmp_path: Path) -> Iterator[Any]:
    """A client of a service with another store: ``client_of(fill, report)``; ``fill`` writes the store."""
    stores: list[StateStore] = []

    def client(write: Any, report: Any = WatcherReport) -> TestClient:
        store = StateStore(tmp_path / f"{len(stores)}.db")
        stores.append(store)
        write(store)
        analysis = Analysis(store, fleet_parts.advisor, fleet_parts.settings)
        analysis.watcher = report
        analysis.round()
        return TestClient(create_app(replace(fleet_parts, store=store, analysis=analysis, registry=CollectorRegistry())))

    yield client
    for store in stores:
        store.close()
