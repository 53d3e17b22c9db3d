"""Backends behind the service's own application: in this process, or in real worker processes where that is what is tested."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (extra service)")

from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins import Settings, registry
from epochcast.analyzer.plugins.registry import Registry
from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.config import Settings as ServiceSettings

Serve = Callable[..., TestClient]
Install = Callable[..., None]


class Here:
    """Answers in this process what the service gives to its workers, with the same errors."""

    async def answer(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except ValueError as error:
            raise InputError(str(error)) from error
        except Exception as error:
            raise RuntimeError("failed") from error


@pytest.fixture(scope="session")
def cpu_points(root: Path) -> Path:
    """This repository's own measurements for ConvMeter."""
    return root / "data" / "convmeter_cpu" / "points.csv.gz"


@pytest.fixture(scope="session")
def cpu_model(tmp_path_factory: pytest.TempPathFactory, cpu_points: Path) -> Path:
    """A model of ConvMeter fitted on a third of them, which takes a third of the time."""
    folder = tmp_path_factory.mktemp("fitted")
    points = pd.read_csv(cpu_points)
    points[points["family"].isin(["resnet", "mnasnet", "vgg"])].to_csv(folder / "points.csv", index=False)
    return fitted(folder / "points.csv", folder / "cpu")


def fitted(points: Path, folder: Path) -> Path:
    """The folder of a model of ConvMeter, fitted on these points."""
    from epochcast.analyzer.cli import main

    assert main(["fit", "convmeter", "--data", str(points), "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="session")
def serve() -> Serve:
    """A client of a service with these tables ``[backends.NAME]``; its backends are those installed when it is called."""

    def made(tables: Mapping[str, Any] | None = None, workers: Any = None, advisor: Any = None) -> TestClient:
        registry._ready.clear()  # what a process keeps was made with the settings of another test
        parts: Any = SimpleNamespace(
            settings=ServiceSettings(hosts=["testserver"]),
            backends=Registry.load(Settings(), tables or {}),
            workers=workers or Here(),
            advisor=advisor,
            registry=CollectorRegistry(),
            authentication=None,
        )
        return TestClient(create_app(parts), raise_server_exceptions=False)

    return made


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install a package for the length of a test: its module's text, and its entry points of the group, NAME = VALUE."""

    def installed(package: str, text: str, **entry_points: str) -> None:
        site = tmp_path / f"site-{package}"
        (site / f"{package}-1.0.dist-info").mkdir(parents=True)
        (site / f"{package}.py").write_text(text)
        (site / f"{package}-1.0.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name.replace('_', '-')} = {value}" for name, value in entry_points.items()]
        listed = "\n".join(["[epochcast.backends]", *lines, ""])
        (site / f"{package}-1.0.dist-info" / "entry_points.txt").write_text(listed)
        monkeypatch.syspath_prepend(str(site))

    return installed
