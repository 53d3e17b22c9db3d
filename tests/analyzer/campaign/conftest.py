"""A training that takes no time: what `record_run` leaves behind, without a process, an agent or torch."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.corpus import append_run
from epochcast.analyzer.recording.device import TrainingDevice
from epochcast.analyzer.traces.trace import Trace, write_trace
from lab.campaign import runner
from lab.campaign.plan import Plan, Workload
from lab.campaign.recording import RecordingSettings

CPU = TrainingDevice("cpu", "Some CPU", "host-here", "host")
EPOCH_S = 5.0


@dataclass
class FakeTraining:
    """Called in the place of `record_run`; ``before[name]`` is called first, and may raise."""

    began: list[str] = field(default_factory=list)
    before: dict[str, Callable[[], object]] = field(default_factory=dict)

    def __call__(self, workload: Workload, epochs: int, corpus: Path, name: str, training: RecordingSettings) -> dict[str, Any]:
        self.began.append(name)
        self.before.get(workload.text, lambda: None)()
        starts = [1000.0 + EPOCH_S * number for number in range(epochs)]
        told = {"epoch_starts": starts, "epoch_ends": [start + EPOCH_S for start in starts], "training": True}
        labels = workload.model_dump() | told | {"workload": workload.text, "group": workload.network}
        labels |= {"seconds": epochs * EPOCH_S + 8.0, "device": training.device.name}
        trace = corpus / "traces" / f"{name}.parquet"
        trace.parent.mkdir(exist_ok=True)
        time = np.arange(1000.0, 1000.0 + epochs * EPOCH_S, 0.5)
        frame = pd.DataFrame({"time": time, "cpu_utilization": np.ones_like(time)})
        write_trace(Trace(frame, gpu=training.device.name, uuid=training.device.uuid, source="host"), trace)
        trace.with_suffix(".json").write_text(json.dumps(labels))
        append_run(corpus, trace, trace.with_suffix(".json"))
        return labels


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> FakeTraining:
    fake = FakeTraining()
    monkeypatch.setattr(runner, "record_run", fake)
    return fake


@pytest.fixture
def plan() -> Plan:
    """Three workloads: ``Net|16|32|100``, ``Net|32|32|100``, ``Net|64|32|100``, three epochs each."""
    grid = {"network": "Net", "batch_size": [16, 32, 64], "image_size": 32, "samples": 100, "epochs": 3}
    return Plan.model_validate({"workload": [grid]})
