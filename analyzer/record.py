"""``epochcast record``: run a command while an agent samples, and keep every sample as a trace."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import pandas as pd

from .agent_client import AgentClient
from .agent_process import agent_process
from .errors import AgentError, InputError
from .trace import Trace, write_trace

DAEMON_URL = "http://127.0.0.1:9911"  # where a daemon of the default configuration listens
_POLL_S = 5.0  # far below the usual retention of an agent (minutes), so that a slow poll loses nothing
_SETTLE_S = 0.3  # the last ticks before the command's end are in the ring three ticks later at the latest


@dataclass(frozen=True)
class Recording:
    """What ``record`` wrote: one file per device; ``returncode`` is the command's, 128 + n if signal n ended it."""

    traces: tuple[Path, ...]
    samples: int
    missed: int
    returncode: int


def record(
    command: Sequence[str],
    out: Path,
    *,
    source: str | None = None,
    stdout: IO[bytes] | int | None = None,
) -> Recording:
    """Run ``command`` while sampling and write its trace to ``out`` (``NAME.gpuN.parquet`` each on several devices).

    Samples come from the daemon on this node if one listens and has ``source`` (None: any), else from a child agent.
    A sampling agent that dies in between costs the samples since then, never those before, and never the command. Raises
    InputError if the command cannot be started or ``out`` cannot be written, AgentError if no agent can be had before the
    command starts.
    """
    if out.suffix not in (".parquet", ".csv"):
        raise InputError(f"cannot write a trace to {str(out)!r}: name a file that ends in .parquet or .csv")
    if not out.parent.is_dir():
        raise InputError(f"there is no folder {str(out.parent)!r} to write {out.name} to; make it first")
    if out.is_dir() or not os.access(out.parent, os.W_OK):
        what = "is a folder" if out.is_dir() else f"cannot be written: no right to write to {str(out.parent)!r}"
        raise InputError(f"{str(out)!r} {what}; name another file")
    with ExitStack() as stack:
        agent = _daemon(source) or stack.enter_context(agent_process(["--source", source or "auto", "--pid", str(os.getpid())]))
        collected = _Collected(agent, start=time.time())
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
        time.sleep(collected.settle_s)
        collected.poll(end)
    traces = collected.traces()
    if not traces:
        raise AgentError(
            f"the agent gave no sample in the {lasted:.2f} s that the command ran (it ended with status {_status(returncode)});"
            " a trace needs a run of at least some tenths of a second"
        )
    return Recording(
        tuple(
            _keep(trace, out if len(traces) == 1 else out.with_suffix(f".gpu{label}{out.suffix}"))
            for label, trace in traces.items()
        ),
        sum(len(trace.frame) for trace in traces.values()),
        sum(trace.missed_ticks for trace in traces.values()),
        _status(returncode),
    )


def _wait(process: subprocess.Popen[bytes], collected: _Collected) -> int | None:
    """The command's return code if it ends before the next poll is due, else None after fetching what was sampled."""
    try:
        # Polls at even distances are a cycle of their own in what the host source measures, and were found as epochs.
        return process.wait(collected.poll_s * random.uniform(0.4, 1.0))
    except subprocess.TimeoutExpired:
        collected.poll()
        return None


def _status(returncode: int) -> int:
    """A process's return code as a shell gives it: 128 + n if signal n ended it."""
    return returncode if returncode >= 0 else 128 - returncode


def _keep(trace: Trace, path: Path) -> Path:
    """Write ``trace`` to ``path``; where that fails (a full disk, say), to the folder for temporary files rather than not."""
    try:
        return write_trace(trace, path)
    except InputError as error:
        rescued = write_trace(trace, Path(tempfile.mkdtemp(prefix="epochcast-")) / path.name)
        raise InputError(f"{error}; the recording was kept as {str(rescued)!r}") from error


def _daemon(source: str | None) -> AgentClient | None:
    """The agent that already listens on this node, if it is one of ours and reads the wanted source."""
    client = AgentClient(DAEMON_URL)
    if not client.healthy():
        return None
    try:
        sources = {device["source"] for device in client.devices()}
    except AgentError:  # it asks for a password, say: its health is all that it tells everybody
        return None
    # A daemon that replays a recording says nothing about what runs here now.
    return client if (source in sources if source else "replay" not in sources) else None


class _Collected:
    """The samples of one recording so far, fetched piece by piece so that its length is not bounded by the agent's ring."""

    def __init__(self, agent: AgentClient, start: float) -> None:
        self._agent = agent
        self._next = start
        self._missed_before = {trace.uuid: trace.missed_ticks for trace in agent.traces(start, start).values()}
        # By UUID: a MIG instance that is made anew goes by its predecessor's label.
        self._pieces: dict[str | None, list[Trace]] = {}
        self._labels: dict[str | None, str] = {}
        # Until then a tick may still be on its way into the ring; some sources hand out rows seconds after their time.
        devices = agent.devices()
        self.settle_s = _SETTLE_S + max((device["lag_s"] for device in devices), default=0.0)
        # What an agent keeps for a short time only is fetched before it is gone.
        self.poll_s = min([_POLL_S, *(device["retention_s"] / 3 for device in devices)])

    def poll(self, end: float | None = None) -> None:
        """Fetch what came since the last poll, up to ``end`` [unix s]; an agent that does not answer is tried again later."""
        # The next piece starts where this one surely is complete.
        upto = end if end is not None else time.time() - self.settle_s
        try:
            traces = self._agent.traces(self._next, upto)
        except (AgentError, InputError):  # InputError: the clock was set back, and the range ends before it begins
            return
        self._next = upto
        for label, trace in traces.items():
            self._labels.setdefault(trace.uuid, label)
            self._pieces.setdefault(trace.uuid, []).append(trace)

    def traces(self) -> dict[str, Trace]:
        """The trace of each device that gave any sample, by its label, without the metrics that it never gave."""
        whole = {}
        for uuid, pieces in self._pieces.items():
            filled = [piece.frame for piece in pieces if len(piece.frame)]
            if filled:
                frame = pd.concat(filled, ignore_index=True).dropna(axis="columns", how="all")
                # A daemon that was restarted in between counts from 0 again.
                missed = max(0, pieces[-1].missed_ticks - self._missed_before.get(uuid, 0))
                label = self._labels[uuid]
                whole[label if label not in whole else f"{label}-{uuid}"] = replace(pieces[0], frame=frame, missed_ticks=missed)
        return whole
