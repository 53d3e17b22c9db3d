"""Event files of TensorBoard, written by its own package, as the epochs of a trace of the same time."""

import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.traces.known_epochs import known_epochs
from epochcast.analyzer.traces.logs import tensorboard_events
from epochcast.analyzer.traces.logs.logged_run import KnownEpochs
from epochcast.analyzer.traces.trace import Trace, write_trace

BEGIN = 1_795_000_000.0

Scalars = Iterable[tuple[float, int, dict[str, float]]]


@pytest.fixture
def tensorboard() -> Any:
    return pytest.importorskip("tensorboard", reason="the extra tensorboard is not installed")


def _log(folder: Path, scalars: Scalars, *, tensors: bool = False) -> Path:
    """Event files of (seconds after the begin, step, tag -> value), as plain values or as TensorFlow 2's tensors."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboard.util.tensor_util import make_tensor_proto

    writer = EventFileWriter(str(folder))
    for after, step, values in scalars:
        event = Event(wall_time=BEGIN + after, step=step, summary=Summary())
        for tag, value in values.items():
            said = {"tensor": make_tensor_proto(np.float32(value))} if tensors else {"simple_value": value}
            event.summary.value.add(tag=tag, **said)
        writer.add_event(event)
    writer.close()
    return folder


def _epochs(folder: Path) -> KnownEpochs | None:
    return tensorboard_events.read(tensorboard_events.event_files(folder), str(folder)).epochs()


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Ten minutes of a T4 at 1 Hz, from the begin."""
    seconds = np.arange(600.0)
    metrics = {"gpu_utilization": 0.7 + 0.1 * np.sin(seconds), "power": 60 + np.cos(seconds)}
    frame = pd.DataFrame({"time": BEGIN + seconds, **metrics})
    return write_trace(Trace(frame, gpu="Tesla T4", source="nvml"), tmp_path / "run.parquet")


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.usefixtures("tensorboard")
def test_a_scalar_counts_the_epochs(tensors: bool, tmp_path: Path) -> None:
    scalars = [(10.0 * row, row, {"loss": 1.0, "train/epoch": row / 5}) for row in range(21)]
    folder = _log(tmp_path, scalars, tensors=tensors)
    found, known = _epochs(folder), known_epochs(file=str(folder))
    assert found is not None and known is not None and found.origin == "its history" and known.spans == found.spans
    assert np.subtract([start for start, _ in found.spans], BEGIN) == pytest.approx([0, 50, 100, 150], abs=1e-3)


@pytest.mark.usefixtures("tensorboard")
def test_keras_counts_epochs_as_steps(tmp_path: Path) -> None:
    keras = _epochs(_log(tmp_path / "keras", [(40.0 * epoch, epoch, {"epoch_loss": 1.0}) for epoch in range(1, 5)]))
    assert keras is not None
    assert np.subtract([start for start, _ in keras.spans], BEGIN).tolist() == [40, 80, 120]


@pytest.mark.usefixtures("tensorboard")
def test_damaged_files_are_read_or_refused_in_one_sentence(
    tmp_path: Path, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = _log(tmp_path / "logs", [(30.0 * row, row, {"epoch": row, "loss": 1.0}) for row in range(20)])
    (file,) = log.iterdir()
    content, dice, statuses = file.read_bytes(), random.Random(7), []
    for _ in range(50):
        broken = bytearray(content)
        for _ in range(dice.choice((0, 1, 1, 10))):
            broken[dice.randrange(len(broken))] ^= 1 << dice.randrange(8)
        if dice.random() < 0.5:
            del broken[dice.randrange(len(broken)) :]
        file.write_bytes(broken)
        statuses.append(main(["detect", str(trace), "--epochs-from", str(file)]))
        err = capsys.readouterr().err
        assert "Traceback" not in err
        assert statuses[-1] == 0 or (statuses[-1] == 2 and err.count("\n") == 1)
    assert 0 < statuses.count(2) < 50


def test_without_the_package_one_sentence_names_the_extra(
    tmp_path: Path, trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "events.out.tfevents.1.host").write_bytes(b"")
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    log = str(tmp_path / "events.out.tfevents.1.host")
    assert main(["detect", str(trace), "--epochs-from", log]) == 2
    assert "pip install '.[tensorboard]'" in capsys.readouterr().err
