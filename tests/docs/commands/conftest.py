"""Folders in which the commands of pages run, with the files that these name (tests/example_files.py)."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from epochcast.detector import Detection, detect

from ...example_files import write_example_files


@pytest.fixture(autouse=True)
def detections(monkeypatch: pytest.MonkeyPatch, kept_detections: dict[bytes, Detection]) -> None:
    """Most commands find the epochs of the same trace before they do what is theirs: what was found once is kept."""

    def kept(time: NDArray[np.float64], metrics: Mapping[str, NDArray[np.float64]], **method: str) -> Detection:
        text = b"".join(
            [repr(method).encode(), time.tobytes(), *(name.encode() + values.tobytes() for name, values in metrics.items())]
        )
        if text not in kept_detections:
            kept_detections[text] = detect(time, metrics, **method)  # type: ignore[arg-type]
        return kept_detections[text]

    monkeypatch.setattr("epochcast.analyzer.jobs.detected_profile.detect", kept)


@pytest.fixture(scope="session")
def kept_detections() -> dict[bytes, Detection]:
    """What `detections` keeps, by the trace's bytes."""
    return {}


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """A folder with every file that a page names; the public measurements are links."""
    folder = tmp_path_factory.mktemp("examples")
    write_example_files(folder, root)
    return folder


@pytest.fixture(scope="session")
def folder_of(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder in which the commands of a page run, one after the other: the example files, and what commands wrote."""
    folders: dict[str, Path] = {}

    def of(page: str) -> Path:
        if page not in folders:
            folders[page] = tmp_path_factory.mktemp("page") / "work"
            shutil.copytree(examples, folders[page], symlinks=True)
        return folders[page]

    return of
