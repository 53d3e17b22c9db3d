"""What comes after the traces, at scale: seconds, memory and bytes of tables, jobs, predictions and report of 10,000 GPUs.

Run: OMP_NUM_THREADS=1 python -m lab.speed.fleet.jobs_and_report DIR [--gpus 10000] [--shifts 2] [--minutes 60]

DIR is the result of `epochcast fleet analyze` on some simulated GPUs. Who works with whom, on which kind of GPU and when their
epochs end is drawn as `lab.simulated_fleet` draws it: jobs of 1 to 64 GPUs, one after the other in shifts, with a pause
between them. What else a worker finds (profile, cycles, quality) is that of a GPU of DIR that did the same; the quick activity
by which the GPUs of a job are recognised is drawn for each job. These findings are written as a run writes them; what
is measured is the same command's second half, from them on.
"""

import argparse
import itertools
import os
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.analyze import analyze
from epochcast.analyzer.fleet.execution import LocalProcesses
from epochcast.analyzer.fleet.finding import Failure, Finding, JobSpan
from epochcast.analyzer.fleet.findings_store import FindingsStore
from epochcast.analyzer.fleet.gpu_history import Looking
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.rhythm import BLOCK, Rhythm
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, GpuDevice
from epochcast.detector.epochs import Verdict
from lab.simulated_fleet.layout import NodeBlock, Work, blocks
from lab.simulated_fleet.write_fleet import START, jobs_of

_ERROR_S = 0.03  # of the end of an epoch: 80 % of what two GPUs of a simulated job differ by lies within 0.09 s
_PAUSE_S = 120.0  # between two shifts
_LEAST_EPOCHS = 4  # of a training that is seen as one
_FAIL = 0.01
_VERDICTS: dict[Work, Verdict] = {"training": "epochs", "steps": "steps", "inference": "steps"}
_PART = 4
# A rhythm at 10 Hz: as many blocks as are kept, and by how much a job's activity and a GPU's noise deviate.
_STEP_S, _BLOCKS, _QUICK, _NOISE = 0.1, 32, 32.0, 8.0


@dataclass(frozen=True)
class Known:
    """A trace that was analysed before; one that failed is tried again, and fails again."""

    name: str
    version: str = "1"
    size: int = 0

    def opened(self) -> NoReturn:
        """See `Trace`."""
        raise InputError(f"{self.name!r} is not a readable Parquet file: it is cut off")


class Templates:
    """Stretches of work of real findings, by what was found in them and on which GPU."""

    def __init__(self, found: FindingsStore) -> None:
        self.findings = list(found.findings())
        self._spans: dict[tuple[str, str], list[JobSpan]] = defaultdict(list)
        for finding in self.findings:
            for span in finding.spans:
                for model in (finding.device.name, ""):
                    self._spans[span.report.detection.verdict, model].append(span)

    def span(self, verdict: str, device: GpuDevice, number: int, start: float, end: float, ends: np.ndarray) -> JobSpan:
        """A stretch like one that is known; of equal ``number`` the same one."""
        known = self._spans[verdict, device.name] or self._spans[verdict, ""]
        like = known[number % len(known)]
        report, profile = like.report, like.report.profile
        epochs = tuple(EpochRecord(last - 1.0, last, 0.95, start) for last in ends.tolist())
        if epochs:
            period = float(np.median(np.diff(ends)))
            if profile is not None:
                timed = dict[str, Any](
                    epoch_s=period, epoch_s_low=0.98 * period, epoch_s_high=1.02 * period, first_epoch_s=None
                )
                profile = replace(profile, unit="epoch", epochs=len(epochs), **timed)
            report = replace(report, detection=replace(report.detection, period_s=period))
        report = replace(report, device=device, job_since=start, epochs_seen=len(epochs), profile=profile)
        trace = f"{device.node}/{device.label}.parquet"
        return replace(like, trace=trace, start=start, end=end, epochs=epochs, report=report)


def rhythm(quick: np.ndarray, end: float, rng: np.random.Generator) -> Rhythm:
    """What a GPU shows of its job's quick activity, (blocks, BLOCK), until the job ends; each GPU has noise of its own."""
    levels = np.clip(quick + rng.normal(0, _NOISE, quick.shape), -127, 127).astype(np.int8)
    return Rhythm("sm_active", _STEP_S, int(end / (BLOCK * _STEP_S)) - len(levels), levels)


def made(block: NodeBlock, templates: Templates, shifts: int, seconds: float, seed: int) -> Iterator[Finding | Failure]:
    """What was found on each GPU of a block, by node."""
    rng = np.random.default_rng([seed, 1, block.number])
    late, spans = rng.uniform(0, 0.1, len(block.nodes)), defaultdict(list)
    devices = {
        (place, index): GpuDevice(
            f"GPU-{node.name}-{index}", str(index), node.device.name, node.name, "simulator", simulated=True,
            instance=node.instance, cloud=node.cloud, region=node.region,
        )
        for place, node in enumerate(block.nodes)
        for index in range(node.gpus)
    }  # fmt: skip
    for shift, slot in itertools.product(range(shifts), block.slots):
        began = START + shift * (seconds + _PAUSE_S)
        for part, (job, since, until) in enumerate(jobs_of(slot, block.nodes[0], seconds, rng)):
            if job.work == "idle":
                continue
            marks = job.timeline.marks()[1]
            verdict = _VERDICTS.get(job.work, "none")
            if verdict == "epochs" and len(marks) < _LEAST_EPOCHS:
                verdict, marks = "steps", marks[:0]
            quick = rng.normal(0, _QUICK, (_BLOCKS, BLOCK))
            for at in slot.gpus:
                seen = began + late[at[0]] + np.sort(marks + rng.normal(0, _ERROR_S, len(marks)))
                first = began + since + late[at[0]]
                span = templates.span(verdict, devices[at], slot.number + part, first, began + until, seen)
                spans[at].append(replace(span, rhythm=rhythm(quick, began + until, rng)))
    whole = shifts * (seconds + _PAUSE_S)
    for at, device in devices.items():
        name = f"{device.node}/{device.label}.parquet"
        if rng.random() < _FAIL:
            yield Failure(name, "1", "see `Known`")
            continue
        idle_s = max(0.0, whole - sum(span.seconds for span in spans[at]))
        like = templates.findings[int(rng.integers(len(templates.findings)))].quality
        yield Finding(name, "1", device, START, START + whole, idle_s, tuple(spans[at]), like, cpu_s=1.0)


def write_parts(out: Path, found: Path, gpus: int, shifts: int, minutes: float, seed: int) -> list[Known]:
    """Write the findings of so many GPUs; return their traces."""
    store, templates, traces = FindingsStore(out / "findings.sqlite"), Templates(FindingsStore(found / "findings.sqlite")), []
    results = (
        result for block in blocks(gpus, seed, sequences=True) for result in made(block, templates, shifts, 60 * minutes, seed)
    )
    while batch := list(itertools.islice(results, _PART)):
        store.add(batch)
        traces += [Known(result.trace) for result in batch]
    return traces


def finish(out: Path, traces: list[Known], processes: int) -> None:
    """Do what comes after the traces, and print one line for each figure."""
    advisor, began = Advisor.load(), time.time()
    with closing(_Closing(LocalProcesses(processes))) as held:
        summary = analyze(traces, out, Looking(advisor.catalog), held.workers, advisor, what="made-up findings")
    took, files = time.time() - began, {path.name: path.stat() for path in sorted(out.glob("*.*"))}
    own, workers = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu_s = sum(usage.ru_utime + usage.ru_stime for usage in (own, workers))
    counts = f"{summary['gpus']} GPUs, {summary['jobs']} jobs, {summary['failed']} failures"
    print(f"{counts}, {processes} processes: {took:.0f} s")
    print(f"processor time {cpu_s:.0f} s, 1-minute load at the end {os.getloadavg()[0]:.1f}")
    print(f"until tables {files['gpus.parquet'].st_mtime - began:.0f} s, jobs {files['jobs.parquet'].st_mtime - began:.0f} s")
    print(f"most memory (RSS): command {own.ru_maxrss / 1e3:.0f} MB, a worker {workers.ru_maxrss / 1e3:.0f} MB")
    print(", ".join(f"{name} {status.st_size / 1e6:.2f} MB" for name, status in files.items()))


class _Closing:
    def __init__(self, workers: LocalProcesses) -> None:
        self.workers = workers

    def close(self) -> None:
        self.workers.close(at_once=False)


def main() -> None:
    """Make the findings, then measure in a process that did not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("found", type=Path, metavar="DIR")
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--shifts", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        traces = write_parts(out, options.found, options.gpus, options.shifts, options.minutes, options.seed)
        held = (out / "findings.sqlite").stat().st_size
        print(f"{options.shifts} shifts of {options.minutes:g} minutes: findings of {held / 1e6:.0f} MB", flush=True)
        measured = get_context("spawn").Process(target=finish, args=(out, traces, options.processes))
        measured.start()
        measured.join()


if __name__ == "__main__":
    main()
