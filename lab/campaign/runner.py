"""Run the workloads of PLAN that a corpus still lacks, in its order, within its time, each failure kept apart from the rest.

PLAN is a TOML file or a shipped one (`python -m lab.campaign plans`). Each workload trains in its own process while an agent
samples; its trace and true epochs become a row of the corpus. If a run fails, CORPUS/failures says why and the others continue.
After Ctrl-C, a full disk or the end of the time budget, run the same command again to continue. Exits 1 if a run failed or did
not start.

python -m lab.campaign run ten-minutes-gpu --out my-a10g
python -m lab.campaign run plan.toml --device cuda:1 --time-budget 3600
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from epochcast.analyzer.backends.distributed.backend import require_torch
from epochcast.analyzer.cli import progress
from epochcast.analyzer.errors import InputError
from epochcast.common.files import write_whole
from lab.campaign.device import TrainingDevice, choose_device
from lab.campaign.expectation import Measured, expected_s, finished_runs
from lab.campaign.overhead import append_overhead, measure_overhead, read_overheads
from lab.campaign.plan import Overhead, Plan, Workload, read_plan
from lab.campaign.recording import RecordingSettings, RunError, record_run
from lab.commands import Nothing

Status = Literal["done", "failed", "skipped", "not reached"]


@dataclass(frozen=True)
class Result:
    """What became of one run.

    Attributes:
        run: its name: workload and device.
        status: ``skipped`` if an earlier campaign finished it, ``not reached`` if the time budget would not hold it.
        seconds: that it took, None where it did not start.
        epochs: that were trained; epoch_s: their median without the first [s].
        reason: why not, in one sentence.
    """

    run: str
    status: Status
    seconds: float | None = None
    epochs: int | None = None
    epoch_s: float | None = None
    reason: str | None = None


class Runner:
    """One campaign on one device, into one corpus folder."""

    def __init__(
        self, plan: Plan, corpus: Path, device: TrainingDevice, time_budget_s: float | None = None, retry_failed: bool = False
    ) -> None:
        self._plan, self._corpus, self._device = plan, corpus, device
        self._budget_s = plan.time_budget_s if time_budget_s is None else time_budget_s
        self._retry_failed = retry_failed
        self._settings = RecordingSettings(device, plan.seed, plan.run_timeout_s)
        self._began = time.monotonic()
        self._measured: list[Measured] = []

    def run(self) -> list[Result]:
        """Run what is missing; one result for each run of the plan, in its order, recordings before overheads.

        If anything stops it, finished runs are kept, and the same campaign continues from there. Raises InputError or OSError
        if the corpus cannot be written or another campaign is writing to it, AgentError if no agent can be had, and SystemExit
        on SIGINT or SIGTERM, without the present run.
        """
        self._corpus.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self._corpus / ".campaign.lock", timeout=0), _stopping() as stopped:
                return self._run(stopped)
        except Timeout:
            raise InputError(f"another campaign is writing to {str(self._corpus)!r}; name another folder") from None

    def _run(self, stopped: Callable[[], int | None]) -> list[Result]:
        finished = finished_runs(self._corpus)
        self._measured = [run for run in finished.values() if run is not None and run.device == self._device.name]
        finished |= {entry.run: None for entry in read_overheads(self._corpus)}
        overheads = [(entry, entry.epochs) for entry in self._plan.overheads()]
        jobs: list[tuple[Workload | Overhead, int]] = [*self._plan.runs(), *overheads]
        results = []
        for number, (workload, epochs) in enumerate(jobs, start=1):
            # What a signal raises is lost where it comes while Python calls back (a weak reference's end, a lock of an import).
            if (came := stopped()) is not None:
                raise SystemExit(128 + came)
            name = self._name(workload)
            result = self._known(name, finished) or self._out_of_time(name, workload, epochs)
            if result is None:
                progress.show(f"run {number} of {len(jobs)}: {name}{self._outlook(workload, epochs)}")
                result = self._attempt(name, workload, epochs, stopped)
            results.append(result)
        return results

    def _name(self, workload: Workload) -> str:
        # The device is in it: several GPUs may fill one folder.
        name = f"{workload.file_name}_{self._device.file_name}"
        return f"overhead_{name}" if isinstance(workload, Overhead) else name

    def _known(self, name: str, finished: dict[str, Measured | None]) -> Result | None:
        """The result of a run that need not start again."""
        if name in finished:
            run = finished[name]
            reason = "finished before"
            return Result(name, "skipped", reason=reason) if run is None else _result(name, "skipped", run, reason)
        log = self._log(name)
        if log.exists() and not self._retry_failed:
            reason = log.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
            return Result(name, "failed", reason=f"{reason} (failed before; retry with --retry-failed)")
        return None

    def _out_of_time(self, name: str, workload: Workload, epochs: int) -> Result | None:
        if self._budget_s is None:
            return None
        left = self._budget_s - (time.monotonic() - self._began)
        expected = self._expected_s(workload, epochs)
        if left > 0 and (expected is None or expected <= left):
            return None
        about = "" if expected is None else f", and it would take about {expected:.0f} s"
        return Result(name, "not reached", reason=f"{max(0.0, left):.0f} s of the time budget were left{about}")

    def _expected_s(self, workload: Workload, epochs: int) -> float | None:
        # Pairs of blocks, and the first that does not count.
        blocks = 2 * workload.pairs + 1 if isinstance(workload, Overhead) else 1
        return expected_s(workload, blocks * epochs, self._measured)

    def _outlook(self, workload: Workload, epochs: int) -> str:
        expected = self._expected_s(workload, epochs)
        used = time.monotonic() - self._began
        budget = "" if self._budget_s is None else f"of {self._budget_s:.0f} "
        return ("" if expected is None else f", about {expected:.0f} s") + f" ({used:.0f} {budget}s used)"

    def _attempt(self, name: str, workload: Workload, epochs: int, stopped: Callable[[], int | None]) -> Result:
        began = time.monotonic()
        try:
            if isinstance(workload, Overhead):
                measured = measure_overhead(workload, name, self._settings)
                append_overhead(self._corpus, measured)
                trained = [epoch for block in (*measured.with_s, *measured.without_s) for epoch in block]
                seconds = round(time.monotonic() - began, 3)
                result = Result(name, "done", seconds, len(trained), statistics.median(trained))
            else:
                run = Measured.of_labels(record_run(workload, epochs, self._corpus, name, self._settings))
                self._measured.append(run)
                result = _result(name, "done", run)
        except RunError as failure:
            if (number := stopped()) is not None:  # it was ended with the campaign
                raise SystemExit(128 + number) from failure
            self._keep(name, failure)
            return Result(name, "failed", round(time.monotonic() - began, 3), reason=str(failure))
        self._log(name).unlink(missing_ok=True)
        return result

    def _keep(self, name: str, failure: RunError) -> None:
        log = self._log(name)
        log.parent.mkdir(exist_ok=True)
        text = "\n".join([str(failure), *failure.said, ""])
        write_whole(log, lambda file: file.write(text.encode()))

    def _log(self, name: str) -> Path:
        return self._corpus / "failures" / f"{name}.log"


def _result(name: str, status: Status, run: Measured, reason: str | None = None) -> Result:
    return Result(name, status, run.seconds, run.epochs, run.epoch_s, reason)


def options(parser: argparse.ArgumentParser) -> None:
    """Which plan, into which corpus, on which device."""
    parser.add_argument("plan")
    parser.add_argument("--out", type=Path, help="corpus folder to fill (default: the plan's name)")
    parser.add_argument("--device", help="cpu or cuda:N (default: the first GPU, else the CPU)")
    parser.add_argument("--time-budget", type=float, help="seconds; no run starts that would end later (default: the plan's)")
    parser.add_argument("--source", help="that the agent reads: nvml, dcgm or host (default: the best available)")
    parser.add_argument("--retry-failed", action="store_true", help="retry runs that failed in an earlier campaign")


def study(asked: argparse.Namespace) -> dict[str, Any]:
    """Run what the corpus still lacks; what became of each run, and what sampling cost."""
    require_torch()
    import torch

    plan, corpus = read_plan(asked.plan), asked.out or Path(Path(asked.plan).stem)
    device = choose_device(asked.device, asked.source, torch.cuda.device_count())
    results = Runner(plan, corpus, device, asked.time_budget, asked.retry_failed).run()
    names = {result.run for result in results}
    answer: dict[str, Any] = {
        "corpus": str(corpus),
        "device": device.name,
        "runs": [asdict(result) for result in results],
        "overhead": [asdict(entry) for entry in read_overheads(corpus) if entry.run in names],
    }
    return Nothing(answer) if any(result.status in ("failed", "not reached") for result in results) else answer


@contextmanager
def _stopping() -> Iterator[Callable[[], int | None]]:
    """Let SIGINT and SIGTERM end the present run and the campaign; yields what says which of them came.

    A recording by itself keeps what it has when it is interrupted, and goes on when SIGINT comes to it alone.
    """
    came: list[int] = []

    def stop(number: int, _frame: object) -> None:
        came.append(number)
        sys.exit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: came[0] if came else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
