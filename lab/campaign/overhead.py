"""What sampling costs a training: blocks of epochs with and without the agent, in one process (the paper's Fig. 13).

Blocks come in pairs, with before without in one and after in the next, so that a machine that grows slower or faster all the
while favours neither.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np
from scipy.stats import t as student

from epochcast.analyzer.traces.recording.agent_client import AgentClient
from epochcast.analyzer.traces.recording.agent_process import agent_process
from epochcast.analyzer.traces.recording.record import DAEMON_URL
from epochcast.common.files import write_whole
from lab.campaign.plan import Overhead
from lab.campaign.recording import RecordingSettings, RunError, lines_of, reason_of, trainer_command

FILE_NAME = "overhead.json"
_LEVEL = 0.90


@dataclass(frozen=True)
class MeasuredOverhead:
    """The slowdown of one workload by sampling.

    Attributes:
        run: its name, as of a run.
        workload, device: what was trained on what.
        overhead: epoch seconds with sampling over those without, minus 1.
        low, high: its 90 % interval.
        with_s, without_s: the epochs' seconds, a list for each block.
        load_average: of the last minute at the end.
        recorded_at: unix seconds.
    """

    run: str
    workload: str
    device: str
    overhead: float
    low: float
    high: float
    with_s: list[list[float]]
    without_s: list[list[float]]
    load_average: float
    recorded_at: float


def read_overheads(corpus: Path) -> list[MeasuredOverhead]:
    """What was measured so far."""
    path = corpus / FILE_NAME
    return [MeasuredOverhead(**entry) for entry in json.loads(path.read_text())] if path.exists() else []


def append_overhead(corpus: Path, measured: MeasuredOverhead) -> None:
    """Add to the corpus' ``overhead.json``, in the place of an earlier one of the same name."""
    kept = [asdict(entry) for entry in read_overheads(corpus) if entry.run != measured.run]
    text = json.dumps([*kept, asdict(measured)], indent=1)
    write_whole(corpus / FILE_NAME, lambda file: file.write(text.encode()))


def measure_overhead(workload: Overhead, name: str, settings: RecordingSettings) -> MeasuredOverhead:
    """Train ``workload`` in blocks with and without sampling, after one block that does not count.

    Raises RunError if the training fails or an agent of somebody else samples already, AgentError if none can be had.
    """
    if AgentClient(DAEMON_URL).healthy():
        raise RunError("an epochcast-agent is already sampling this node; stop it to measure the cost of sampling", [])
    command = trainer_command(workload, workload.epochs, settings, blocks=True)
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        try:
            with_s, without_s = _blocks(lambda: _block(process), workload.pairs, settings.device.source)
        except BlockError:
            with suppress(BrokenPipeError):  # of a line that a dead process did not take
                process.stdin.close()  # type: ignore[union-attr]
            status = process.wait()
            said = lines_of(errors)
            raise RunError(reason_of(status if status >= 0 else 128 - status, said, settings.timeout_s), said) from None
        finally:
            process.kill()
            process.wait()
    value, low, high = slowdown(with_s, without_s)
    return MeasuredOverhead(
        run=name,
        workload=workload.text,
        device=settings.device.name,
        overhead=value,
        low=low,
        high=high,
        with_s=with_s,
        without_s=without_s,
        load_average=os.getloadavg()[0],
        recorded_at=time.time(),
    )


def slowdown(with_s: list[list[float]], without_s: list[list[float]]) -> tuple[float, float, float]:
    """Overhead and its 90 % interval from n pairs of blocks of epoch seconds.

    The mean over pairs of the logarithm of the ratio of the blocks' median epochs, with Student's interval: the pairs' scatter
    holds all that disturbs the machine for longer than a block.
    """
    ratios = np.log([median(on) / median(off) for on, off in zip(with_s, without_s, strict=True)])
    half = student.ppf((1 + _LEVEL) / 2, ratios.size - 1) * ratios.std(ddof=1) / np.sqrt(ratios.size)
    value, low, high = np.expm1([ratios.mean(), ratios.mean() - half, ratios.mean() + half]).tolist()
    return value, low, high


class BlockError(RuntimeError):
    """The training process ended in the middle."""


def _blocks(train: Callable[[], list[float]], pairs: int, source: str | None) -> tuple[list[list[float]], list[list[float]]]:
    train()  # memory is allocated and caches are filled
    seconds: dict[bool, list[list[float]]] = {True: [], False: []}
    for pair in range(pairs):
        for sampled in (True, False) if pair % 2 == 0 else (False, True):
            with agent_process(["--source", source or "auto"]) if sampled else nullcontext():
                seconds[sampled].append(train())
    return seconds[True], seconds[False]


def _block(process: subprocess.Popen[bytes]) -> list[float]:
    """Let the process train one block; the seconds of its epochs."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(b"\n")
        process.stdin.flush()
    except BrokenPipeError:
        raise BlockError from None
    for line in process.stdout:
        with suppress(ValueError, TypeError, KeyError):  # a user's network may print as well
            seconds: list[float] = json.loads(line)["epoch_s"]
            return seconds
    raise BlockError
