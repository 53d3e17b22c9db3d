"""What comes after the traces, at scale: processor time, memory and bytes of jobs, predictions and report of many GPUs.

Run: OMP_NUM_THREADS=1 python -m benchmarks.fleet.jobs_and_report DIR [--gpus 10000]

DIR is the result of `epochcast fleet analyze`. What was found there is taken as often as needed, each time on other GPUs and up
to an hour later, so that copies of a job are not in step with it. The measurement is of this one process, without the traces.
"""

import argparse
import itertools
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from epochcast.analyzer.answers.advisor import Advisor
from epochcast.analyzer.fleet.analyze import write_answers
from epochcast.analyzer.fleet.finding import Finding, JobSpan
from epochcast.analyzer.fleet.findings_store import FindingsStore
from epochcast.analyzer.telemetry.gpu_report import MOST_EPOCHS, EpochRecord, GpuDevice

_LATEST_S = 3600.0


def many(found: FindingsStore, gpus: int) -> Iterator[Finding]:
    """Findings of so many GPUs."""
    shifts = np.random.default_rng(0).uniform(0, _LATEST_S, gpus)
    of_copies = (_moved(finding, copy, shifts[copy]) for copy in itertools.count() for finding in found.findings())
    return itertools.islice(of_copies, gpus)


def _moved(finding: Finding, copy: int, by: float) -> Finding:
    of = finding.device
    device = replace(of, uuid=f"{of.uuid}-{copy}", node=f"{of.node}-{copy}")
    spans = tuple(_moved_span(span, device, by) for span in finding.spans)
    return replace(
        finding,
        trace=f"{copy}/{finding.trace}",
        device=device,
        start=finding.start + by,
        end=finding.end + by,
        spans=spans,
    )


def _moved_span(span: JobSpan, device: GpuDevice, by: float) -> JobSpan:
    start = span.start + by
    epochs = tuple(EpochRecord(one.start + by, one.end + by, one.confidence, start) for one in span.epochs)
    report = replace(span.report, device=device, job_since=start, epochs=epochs[-MOST_EPOCHS:])
    return replace(span, start=start, end=span.end + by, epochs=epochs, report=report)


def main() -> None:
    """Print one line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("found", type=Path, metavar="DIR")
    parser.add_argument("--gpus", type=int, default=10_000)
    options = parser.parse_args()
    advisor, store = Advisor.load(), FindingsStore(options.found)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        told = write_answers(many(store, options.gpus), (), advisor, Path(folder), analysed="many copies")
        took, most = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sizes = {path.name: path.stat().st_size for path in sorted(Path(folder).iterdir())}
    print(
        f"{told['gpus']} GPUs, {told['jobs']} jobs: {took:.0f} s of processor time, {1000 * took / told['jobs']:.0f} ms per job"
    )
    print(f"memory: {before / 1e3:.0f} MB before, at most {most / 1e3:.0f} MB")
    for name, size in sizes.items():
        print(f"{name}: {size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
