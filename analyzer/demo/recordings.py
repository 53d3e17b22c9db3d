"""The demo's two recordings: a real training on this machine, and a GPU trace that is shipped, each read through an agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from epochcast.analyzer.demo.player import TRACES
from epochcast.analyzer.errors import AgentError
from epochcast.analyzer.traces.labels import read_labels
from epochcast.analyzer.traces.recording.agent_process import agent_process
from epochcast.analyzer.traces.trace import Trace, read_trace, write_trace
from epochcast.common.files import write_whole
from epochcast.detector.labels import Labels

_LEAD_S = 1.5  # sampled before the trainer starts and after it ends, so that the trace shows both
_SETTLE_S = 0.3  # the last ticks are in the agent's ring three ticks later at the latest
# The trainer makes its fewest epochs however slow the machine is; from _LATE times its time on the progress line says why it
# takes longer. After _MOST_S it is ended with the epochs that it has: the agent keeps samples for ten minutes.
_LATE, _MOST_S = 1.3, 570.0


class TrainerError(RuntimeError):
    """The demo's training ended before it had two epochs to show."""


def record_training(out: Path, seconds: float, progress: Callable[[str], object]) -> tuple[Trace, dict[str, Any]]:
    """Train for about ``seconds`` while an agent samples this machine; the trace, and what the trainer wrote down.

    Leaves ``live.csv`` and its label file ``live.json`` in the folder ``out``. Both processes are always ended.
    Raises TrainerError or AgentError with one sentence.
    """
    marks = out / "live.json"
    marks.unlink(missing_ok=True)
    # What an installation left in the write cache would go to the disk in bursts five seconds apart, as epochs might.
    os.sync()
    with agent_process(["--source", "host", "--pid", str(os.getpid())]) as agent:
        began = time.time()
        time.sleep(_LEAD_S)
        _train(marks, seconds, progress)
        ended = time.time() + _LEAD_S
        time.sleep(_LEAD_S + _SETTLE_S)
        traces = agent.traces(began, ended)
    if not traces or traces["0"].frame.empty:
        raise AgentError("the agent gave no sample while the CNN trained; see `epochcast-agent check`")
    trace = replace(traces["0"], frame=traces["0"].frame.dropna(axis="columns", how="all"))
    write_trace(trace, out / "live.csv")
    return trace, json.loads(marks.read_text(encoding="utf-8"))


def _train(marks: Path, seconds: float, progress: Callable[[str], object]) -> None:
    command = [sys.executable, "-m", "epochcast.analyzer.demo.trainer", f"{seconds:g}", str(marks)]
    one_thread = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with tempfile.TemporaryFile() as said:
        trainer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=one_thread)
        try:
            began = time.monotonic()
            while trainer.poll() is None and (spent := time.monotonic() - began) < _MOST_S:
                why = " (this machine is busy: it takes longer)" if spent > _LATE * seconds else ""
                progress(f"training a network on this CPU: {spent:.0f} of about {seconds:.0f} s{why}, {_last_line(said)}")
                time.sleep(0.5)
        finally:
            ended_itself = trainer.poll() is not None
            trainer.terminate()
            trainer.wait()
            marks.with_suffix(".checkpoint.npz").unlink(missing_ok=True)
        epochs = len(json.loads(marks.read_text(encoding="utf-8"))["epoch_starts"]) if marks.exists() else 0
        if ended_itself and trainer.returncode != 0:
            raise TrainerError(f"the training ended with status {trainer.returncode} after {epochs} epochs: {_last_line(said)}")
        if epochs < 2:
            raise TrainerError(
                f"the training had {epochs} epochs after {_MOST_S:.0f} s and was stopped; try a less busy machine"
            )


def _last_line(said: Any) -> str:
    """The newest whole line of the trainer's output; read by position, which the trainer shares, so without moving it."""
    lines = os.pread(said.fileno(), 1 << 20, 0).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "starting"


SPEED = 60.0
_POLL_S = 0.5
_PATIENCE_S = 15.0  # beyond the time that the replay should take


def gpu_trace() -> tuple[Trace, Labels]:
    """A whole training on a GPU with its true epoch marks; it says that it is simulated (``Trace.simulated``)."""
    return read_trace(TRACES / "t4_training.parquet"), read_labels(TRACES / "t4_training.json")


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
