"""How long predictions take: one of GPT-3 175B, in process and as a command, and a search over all ways to use 512 GPUs.

Run: python -m benchmarks.distributed.search    (one core: OMP_NUM_THREADS=1; needs torch)
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from epochcast.analyzer.backends.distributed.fitted_model import FittedModel
from epochcast.analyzer.backends.distributed.graphs import ModelGraphs
from epochcast.analyzer.backends.distributed.job import Job
from epochcast.analyzer.backends.distributed.predictor import Predictor
from epochcast.analyzer.backends.distributed.search import Space, search
from epochcast.regressor import load_catalog

MODEL, GPU = "GPT-3-175B", "A100 SXM4 80GB"


def one() -> float:
    """Seconds of a process's first prediction."""
    began = time.perf_counter()
    job = Job(data=8, tensor=8, pipeline=8, global_batch=1536, recomputation="full")
    Predictor(ModelGraphs.of(MODEL), coefficients=FittedModel.load().coefficients).iteration(load_catalog()[GPU], job)
    return time.perf_counter() - began


def command() -> tuple[float, float]:
    """Seconds of the same as a command: wall clock, and CPU of the process."""
    arguments = ["--model", MODEL, "--gpu", GPU, "--dp", "8", "--tp", "8", "--pp", "8", "--global-batch", "1536"]
    began, before = time.perf_counter(), os.times()
    epochcast = Path(sys.executable).with_name("epochcast")
    subprocess.run(
        [epochcast, "predict-model", "distributed", *arguments, "--recomputation", "full"], check=True, capture_output=True
    )
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, used


def all_of_512() -> tuple[float, float, int, int]:
    """Seconds of a search, wall clock and CPU, and the configurations that fit and do not."""
    began, before = time.perf_counter(), time.process_time()
    predictor = Predictor(ModelGraphs.of(MODEL), coefficients=FittedModel.load().coefficients)
    found = search(predictor, Job(global_batch=1536), [(load_catalog()[GPU], 512)], Space())
    return time.perf_counter() - began, time.process_time() - before, len(found.candidates), found.too_large


if __name__ == "__main__":
    print(f"load (1, 5, 15 min): {' '.join(f'{load:.1f}' for load in os.getloadavg())}, {os.cpu_count()} cores")
    print(f"one prediction of {MODEL}, in process after import: {one():.2f} s")
    print("as a command: {:.2f} s, {:.2f} s of CPU".format(*command()))
    seconds, used, fit, do_not = all_of_512()
    print(f"search over 512 {GPU}: {fit} configurations fit, {do_not} do not; {seconds:.1f} s, {used:.1f} s of CPU")
