"""``epochcast record``: run a command while an agent samples, and keep every sample as a trace."""

from __future__ import annotations

import math
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from epochcast.analyzer.errors import AgentError, InputError
from epochcast.analyzer.traces.recording.agent_client import AgentClient, without_samples
from epochcast.analyzer.traces.recording.agent_process import agent_process
from epochcast.analyzer.traces.recording.growing_trace import GrowingTrace
from epochcast.analyzer.traces.trace import Trace, write_trace
from epochcast.regressor.job_types import network_of_command

HOST = "host"  # the source of the machine's own trace
DAEMON_URL = "http://127.0.0.1:9911"  # where a daemon of the default configuration listens
# A kill of `record` costs at most this and the time of a poll, which is to be below 2 s; on average it is 1 s. An
# agent keeps samples for much longer (minutes by default), so that a slow poll loses none.
_POLL_S = 1.4
_LOOK_S = 10.0  # some attributes of a device take seconds to read, and asking at every poll would cost as much as the samples
_CLOCK_STEP_S = 0.05  # by more at once a clock is set and does not drift; as in the agent
_INTERVAL_S = 0.1  # from row to row, of a device that is gone
_SETTLE_S = 0.3  # the last ticks before the command's end are in the ring three ticks later at the latest


class NoSampleError(AgentError):
    """The agent gave no sample while the command ran; ``returncode`` is the command's, as in `CompletedRecording`."""

    def __init__(self, message: str, returncode: int) -> None:
        super().__init__(message)
        self.returncode = returncode


@dataclass(frozen=True)
class CompletedRecording:
    """What ``record`` left: one file per device; ``returncode`` is the command's, 128 + n if signal n ended it.

    ``lasted_s``: how long that ran. ``problem`` is a sentence on what could not be written where it was wanted, and which of
    ``traces`` have it instead.
    """

    traces: tuple[Path, ...]
    samples: int
    missed: int
    returncode: int
    lasted_s: float
    problem: str | None = None


def record(
    command: Sequence[str],
    out: Path,
    *,
    source: str | None = None,
    stdout: IO[bytes] | int | None = None,
) -> CompletedRecording:
    """Run ``command`` while sampling and write its trace to ``out`` (``NAME.gpuN.parquet`` each on several GPUs).

    GPUs are sampled by the daemon on this node if one listens and has ``source`` (None: any), else by a child agent. A child
    agent samples the machine and the command's processes: where there are GPUs their trace is ``NAME.host.parquet``.
    A sampling agent that dies in between costs the samples since then, never those before, and never the command.

    While the command runs each device's samples are brought to ``NAME.gpuN.recording.csv``, a trace too; it is removed when its
    samples are in their final file, and stays where that cannot be written. Raises InputError if the command cannot be started
    or ``out`` cannot be written to begin with, AgentError if no agent can be had before the command starts,
    NoSampleError if it gave nothing.
    """
    if out.suffix not in (".parquet", ".csv"):
        raise InputError(f"cannot write a trace to {str(out)!r}: name a file that ends in .parquet or .csv")
    if not out.parent.is_dir():
        raise InputError(f"there is no folder {str(out.parent)!r} to write {out.name} to; create it first")
    if out.is_dir() or not os.access(out.parent, os.W_OK):
        what = "is a folder" if out.is_dir() else f"cannot be written: no write permission for {str(out.parent)!r}"
        raise InputError(f"{str(out)!r} {what}; name another file")
    with ExitStack() as stack:
        daemon = _daemon(source)
        child_source = "host" if daemon else source or "auto"
        # This process's descendants from now on: the command's.
        child = stack.enter_context(agent_process(["--source", child_source, "--pid", str(os.getpid())]))
        start = time.time()
        network = network_of_command(command)
        job = {"command": network[0]} if network else {}  # not its words: there may be secrets among them
        collected = [_Collected(agent, out, start, job) for agent in (daemon, child) if agent]
        try:
            process = subprocess.Popen(command, stdout=stdout)
        except OSError as error:
            raise InputError(f"cannot run {command[0]!r}: {error.strerror}") from error
        began = time.monotonic()
        returncode = None
        while returncode is None:
            try:
                returncode = _wait(process, collected)
            except KeyboardInterrupt:  # the command got it too: its end is awaited, its samples are kept
                continue
            except SystemExit:  # SIGTERM came to us alone: hand it on, and keep the samples as well
                process.terminate()
        lasted, end = time.monotonic() - began, time.time()
        time.sleep(max(part.settle_s for part in collected))
        for part in collected:
            part.poll(end)
    traces = [growing for part in collected for growing in part.traces]
    if not traces:
        raise NoSampleError(
            f"the agent gave no sample in the {lasted:.2f} s that the command ran (it ended with status {_status(returncode)});"
            " a trace needs a run of at least some tenths of a second",
            _status(returncode),
        )
    return replace(_filed(traces, out, _status(returncode)), lasted_s=lasted)


def _wait(process: subprocess.Popen[bytes], collected: Sequence[_Collected]) -> int | None:
    """The command's return code if it ends before the next poll is due, else None after fetching what was sampled."""
    try:
        # Polls at even distances are a cycle of their own in what the host source measures, and were found as epochs.
        return process.wait(min(part.poll_s for part in collected) * random.uniform(0.4, 1.0))
    except subprocess.TimeoutExpired:
        for part in collected:
            part.poll()
        return None


def _status(returncode: int) -> int:
    """A process's return code as a shell gives it: 128 + n if signal n ended it."""
    return returncode if returncode >= 0 else 128 - returncode


def _filed(traces: Sequence[GrowingTrace], out: Path, returncode: int) -> CompletedRecording:
    """Write each device's final file; where that cannot be (a full disk, say), leave its samples where they can be."""
    files: list[Path] = []
    kept: list[str] = []
    samples = missed = lost = 0
    problem: list[str] = []
    temporary = None
    gpus = sum(growing.about.source != HOST for growing in traces)
    for growing in traces:
        trace = growing.trace()
        samples, missed = samples + len(trace.frame), missed + trace.missed_ticks
        alone = (gpus == 1 and trace.source != HOST) or len(traces) == 1
        path = out if alone else _of_device(out, growing.about, out.suffix)
        try:
            files.append(write_trace(trace, path))
            growing.remove()
            continue
        except InputError as error:
            problem = problem or [str(error)]
        if not growing.write():
            try:
                temporary = temporary or Path(tempfile.mkdtemp(prefix="epochcast-"))
                files.append(write_trace(trace, temporary / path.name))
                kept.append(str(files[-1]))
                continue
            except (OSError, InputError):
                lost += growing.unwritten
        if growing.path is not None:
            files.append(growing.path)
            kept.append(str(growing.path))
    if kept:
        problem.append(f"the samples of {len(kept)} of {len(traces)} devices are kept as {', '.join(kept)}")
    if lost:
        problem.append(f"the last samples, {lost} of all devices together, are lost, as no disk took them")
    return CompletedRecording(tuple(files), samples - lost, missed, returncode, 0.0, "; ".join(problem) or None)


def _of_device(out: Path, about: Trace, suffix: str) -> Path:
    """The name of one of several devices' files: ``run.gpu3.parquet`` for ``run.parquet`` and the label ``3``."""
    return out.with_suffix(f".host{suffix}" if about.source == HOST else f".gpu{about.label}{suffix}")


def _daemon(source: str | None) -> AgentClient | None:
    """The agent that already listens on this node, if it is one of ours and reads its GPUs, by the wanted source."""
    client = AgentClient(DAEMON_URL)
    if not client.healthy():
        return None
    try:
        sources = {device["source"] for device in client.devices()}
    except AgentError:  # it asks for a password, say: its health is all that it shows to everybody
        return None
    # A daemon that replays a recording says nothing about what runs here now.
    return client if (source in sources if source else "replay" not in sources) and sources != {HOST} else None


class _Clock:
    """This machine's wall clock; ``unix``: seconds now; ``set_back_s``: by how many it was set back in all."""

    def __init__(self) -> None:
        self.set_back_s = 0.0
        self._ahead = time.time() - time.monotonic()

    @property
    def unix(self) -> float:
        return time.monotonic() + self._ahead

    def follow(self) -> float:
        """The seconds by which it was set back since the last call."""
        before, self._ahead = self._ahead, time.time() - time.monotonic()
        back = before - self._ahead if before - self._ahead > _CLOCK_STEP_S else 0.0
        self.set_back_s += back
        return back


class _Collected:
    """The samples of one recording so far, fetched piece by piece so that its length is not bounded by the agent's ring."""

    def __init__(self, agent: AgentClient, out: Path, start: float, job: Mapping[str, str]) -> None:
        self._agent = agent
        self._out = out
        self._job = job
        self._next = start
        # By UUID: a MIG instance that is made again goes by its predecessor's label.
        self._traces: dict[str, GrowingTrace] = {}
        # Ticks that a device missed, as its agent counts them and since the start.
        self._missed = {device["uuid"]: (device["missed_ticks"], 0) for device in agent.samples(start, start)}
        self._static: dict[str, dict[str, Any]] = {}
        self._clock = _Clock()
        # Of each device: rows that its agent has dropped, and what is added to the times of those before and after that.
        self._added: dict[str, tuple[int, float, float]] = {}
        self.poll_s, self.settle_s = _POLL_S, _SETTLE_S
        self._look()

    def poll(self, end: float | None = None) -> None:
        """Fetch what came since the last poll, up to ``end`` [unix s], and bring it to the disk.

        An agent that does not answer, or a disk that takes no more, is tried again at the next poll.
        """
        with suppress(AgentError):  # refused, too, where the clock was set back and the last range ends before it begins
            self._fetch(end)
        for growing in self._traces.values():
            growing.write()

    @property
    def traces(self) -> list[GrowingTrace]:
        """The trace of each device that gave any sample."""
        return list(self._traces.values())

    def _look(self) -> None:
        """Ask what devices there are."""
        devices = self._agent.devices()
        self._static |= {device["uuid"]: device["static"] for device in devices}
        # For so long a tick may be on its way into the ring; some sources hand out rows seconds after their time.
        self.settle_s = _SETTLE_S + max((device["lag_s"] for device in devices), default=0.0)
        # What an agent keeps for a short time only is fetched before it is gone.
        self.poll_s = min([_POLL_S, *(device["retention_s"] / 3 for device in devices)])
        self._looked = time.monotonic()

    def _fetch(self, end: float | None) -> None:
        self._next -= self._clock.follow()
        now = self._clock.unix
        devices = self._agent.samples(self._next, end)
        is_new = any(device["uuid"] not in self._static for device in devices)
        if is_new or end is not None or time.monotonic() > self._looked + _LOOK_S:
            with suppress(AgentError):  # what came already is not lost for that
                self._look()
        for device in devices:
            uuid = device["uuid"]
            counted, missed = self._missed.get(uuid, (0, 0))
            # A daemon that was restarted in between counts from 0 again.
            new = device["missed_ticks"] - counted if device["missed_ticks"] >= counted else device["missed_ticks"]
            times, lost = self._times(device, new)
            missed += new + lost
            self._missed[uuid] = device["missed_ticks"], missed
            if times or uuid in self._traces:
                growing = self._growing(device)
                growing.missed_ticks = missed
                growing.extend(times, device["metrics"])
        # A tick that is late comes with the next piece; what comes twice is left out.
        self._next = now - self.settle_s

    def _times(self, device: dict[str, Any], missed: int) -> tuple[list[float], int]:
        """The times of a device's rows as if the clock had not been set back, and how many rows were dropped before they came.

        ``missed``: ticks that it missed since the last poll.
        """
        uuid, total = device["uuid"], self._clock.set_back_s
        # An agent drops rows for no other reason; a device's first rows come before or after all of that.
        dropped, since = device.get("dropped_samples", 0), device.get("set_back_to") or math.inf
        known, before, after = self._added.setdefault(uuid, (dropped, total, total))
        newest = time.time()
        is_set_back = [since <= row <= newest for row in device["time"]]
        lost = 0
        if dropped != known and after < total and any(is_set_back):
            before, after = after, total
            self._added[uuid] = dropped, before, after
        times = [row + (after if back else before) for row, back in zip(device["time"], is_set_back, strict=True)]
        if self._added[uuid][0] != known and uuid in self._traces:
            first = is_set_back.index(True)
            last = max([self._traces[uuid].newest, *times[:first]])
            lost = max(0, round((times[first] - last) / (device["interval_s"] or _INTERVAL_S)) - 1 - missed)
        return times, lost

    def _growing(self, device: dict[str, Any]) -> GrowingTrace:
        uuid, label = device["uuid"], device["label"]
        static = self._static.get(uuid, {})
        growing = self._traces.get(uuid)
        if growing is None:
            if any(other.about.label == label for other in self.traces):
                label = f"{label}-{uuid}"
            about = replace(without_samples(device, static), label=label, job=self._job)
            growing = self._traces[uuid] = GrowingTrace(_of_device(self._out, about, ".recording.csv"), about)
        elif growing.about.static != static:
            growing.about = replace(growing.about, static=static)
        return growing
