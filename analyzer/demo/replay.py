"""The demo's GPU part: a simulated GPU trace, played through an agent of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd

from ...detector.evaluation import Labels
from ...detector.simulator import simulate
from ..errors import AgentError
from ..files import write_whole
from ..recording.agent_process import agent_process
from ..traces.trace import Trace, write_trace

SPEED = 60.0
_SEED = 7
_POLL_S = 0.5
_PATIENCE_S = 15.0  # beyond the time that the replay should take


def gpu_trace() -> tuple[Trace, Labels]:
    """A simulated GPU trace with true epoch marks; it says so (``Trace.simulated``)."""
    made = simulate(_SEED)
    frame = pd.DataFrame({"time": made.time, **made.metrics})
    return Trace(frame, gpu=made.gpu, source="simulator", simulated=True), Labels.from_json(made.labels())


def replay_trace(trace: Trace, labels: Labels, out: Path, progress: Callable[[str], object]) -> Trace:
    """Play ``trace`` through an agent at `SPEED` and read it back over HTTP, as an analyzer reads a node's samples.

    Leaves ``replay.csv`` and its label file ``replay.json`` in the folder ``out``. Raises AgentError if samples get lost.
    """
    path = write_trace(trace, out / "replay.csv")
    marks = json.dumps({**asdict(labels), "simulated": trace.simulated}, indent=1)
    write_whole(path.with_suffix(".json"), lambda file: file.write(marks.encode()))
    last = float(trace.time[-1])
    expected_s = (last - float(trace.time[0])) / SPEED
    with agent_process(["--source", "replay", "--replay", str(path), "--speed", f"{SPEED:g}"]) as agent:
        began = time.monotonic()
        # The recording's own times come back, up to what the CSV's digits keep of them.
        while not any(len(piece.frame) for piece in agent.traces(start=last - 0.01).values()):
            passed = time.monotonic() - began
            if passed > expected_s + _PATIENCE_S:
                raise AgentError(f"the replay should have taken {expected_s:.0f} s and has not ended after {passed:.0f} s")
            progress(f"replaying {last - float(trace.time[0]):.0f} s of {trace.gpu} at {SPEED:g}x: {passed:.0f} s")
            time.sleep(_POLL_S)
        played = agent.traces()["0"]
    if len(played.frame) != len(trace.frame):
        raise AgentError(f"{len(played.frame)} of the trace's {len(trace.frame)} samples came back from the agent")
    return replace(played, frame=played.frame.dropna(axis="columns", how="all"))
