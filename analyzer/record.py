"""``epochcast record``: run a command while an agent samples, and keep every sample as a trace."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import pandas as pd

from .agent_client import AgentClient, AgentError
from .agent_process import agent_process
from .errors import InputError
from .trace import Trace, write_trace

DAEMON_URL = "http://127.0.0.1:9911"  # where a daemon of the default configuration listens
_POLL_S = 5.0  # far below the agent's retention (minutes), so that a slow poll loses nothing
_SETTLE_S = 0.3  # the last ticks before the command's end are in the ring three ticks later at the latest


@dataclass(frozen=True)
class Recording:
    """What ``record`` wrote: one file per device, and the exit status of the command."""

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
    progress: Callable[[int, float], None] = lambda samples, seconds: None,
) -> Recording:
    """Run ``command`` while sampling and write its trace to ``out`` (``NAME.gpuN.parquet`` each on several devices).

    Samples come from the daemon on this node if one listens and has ``source`` (None: any), else from a child agent.
    ``progress`` is called with (samples so far, seconds so far). A sampling agent that dies in between costs the samples
    since then, never those before, and never the command. Raises InputError if the command cannot be started or ``out``
    cannot be written, AgentError if no agent can be had before the command starts.
    """
    if out.suffix not in (".parquet", ".csv"):
        raise InputError(f"cannot write a trace to {str(out)!r}: name a file that ends in .parquet or .csv")
    if not out.parent.is_dir():
        raise InputError(f"there is no folder {str(out.parent)!r} to write {out.name} to; make it first")
    with ExitStack() as stack:
        agent = _daemon(source) or stack.enter_context(agent_process(["--source", source or "auto"]))
        collected = _Collected(agent, start=time.time())
        try:
            process = subprocess.Popen(command, stdout=stdout)
        except OSError as error:
            raise InputError(f"cannot run {command[0]!r}: {error.strerror}") from error
        began = time.monotonic()
        returncode = None
        while returncode is None:
            try:
                returncode = process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                collected.poll()
                progress(collected.samples, time.monotonic() - began)
            except KeyboardInterrupt:  # the command got it too: its end is awaited, its samples are kept
                continue
        end = time.time()
        time.sleep(_SETTLE_S)
        collected.poll(end)
    traces = collected.traces()
    if not traces:
        raise AgentError("the agent gave no sample while the command ran; see `epochcast-agent check`")
    paths = [out] if len(traces) == 1 else [out.with_suffix(f".gpu{index}{out.suffix}") for index in range(len(traces))]
    for trace, path in zip(traces, paths, strict=True):
        write_trace(trace, path)
    return Recording(
        tuple(paths), sum(len(trace.frame) for trace in traces), sum(trace.missed_ticks for trace in traces), returncode
    )


def _daemon(source: str | None) -> AgentClient | None:
    """The agent that already listens on this node, if it is one of ours and reads the wanted source."""
    client = AgentClient(DAEMON_URL)
    if not client.healthy():
        return None
    return client if source is None or any(device["source"] == source for device in client.devices()) else None


class _Collected:
    """The samples of one recording so far, fetched piece by piece so that its length is not bounded by the agent's ring."""

    def __init__(self, agent: AgentClient, start: float) -> None:
        self._agent = agent
        self._next = start
        self._missed_before = {trace.uuid: trace.missed_ticks for trace in agent.traces(start, start)}
        self._pieces: dict[str | None, list[Trace]] = {}

    @property
    def samples(self) -> int:
        return sum(len(piece.frame) for pieces in self._pieces.values() for piece in pieces)

    def poll(self, end: float | None = None) -> None:
        """Fetch what came since the last poll, up to ``end`` [unix s]; an agent that does not answer is tried again later."""
        # The next piece starts where this one surely is complete; a tick may still be on its way into the ring.
        upto = end if end is not None else time.time() - _SETTLE_S
        try:
            traces = self._agent.traces(self._next, upto)
        except AgentError:
            return
        self._next = upto
        for trace in traces:
            self._pieces.setdefault(trace.uuid, []).append(trace)

    def traces(self) -> list[Trace]:
        """One trace per device that gave any sample, without the metrics that it never gave."""
        whole = []
        for uuid, pieces in self._pieces.items():
            filled = [piece.frame for piece in pieces if len(piece.frame)]
            if filled:
                frame = pd.concat(filled, ignore_index=True).dropna(axis="columns", how="all")
                missed = pieces[-1].missed_ticks - self._missed_before.get(uuid, 0)
                whole.append(replace(pieces[0], frame=frame, missed_ticks=missed))
        return whole
