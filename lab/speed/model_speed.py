"""How long the predictors take that answer before anything runs; rows of *The predictors* in docs/measurements.md.

Run: OMP_NUM_THREADS=1 python -m lab.speed.model_speed      (needs torch and the extras convnets and occupancy; one core)
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from epochcast.analyzer.backends.convmeter import predictor as convmeter
from epochcast.analyzer.backends.convmeter.counting import count
from epochcast.analyzer.backends.convmeter.metrics import known_metrics, read_points
from epochcast.analyzer.backends.distributed.fitted_model import DistributedModel
from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.predictor import IterationPredictor
from epochcast.analyzer.backends.distributed.search import Search
from epochcast.analyzer.backends.network.find import find_network
from epochcast.analyzer.backends.occupancy.graph.from_module import graph_of_module
from epochcast.analyzer.backends.occupancy.networks import NetworkConfiguration, build_network, complete
from epochcast.regressor import load_catalog
from lab.occupancy.measure import NETWORKS
from lab.speed.convmeter.public_tables import OWN, points_of
from lab.speed.page import options

REPEATS = 7
MODEL, GPU = "GPT-3-175B", "A100 SXM4 80GB"
GRAPHS = 600


def distributed() -> Iterator[str]:
    """A process's first prediction of a large model, the command, and a search."""

    def predictor() -> IterationPredictor:
        return IterationPredictor(ModelGraphs.of(MODEL), fitted=DistributedModel.load())

    gpu, job = load_catalog()[GPU], TrainingConfiguration(data=8, tensor=8, pipeline=8, global_batch=1536, recomputation="full")
    began = time.perf_counter()
    predictor().iteration(gpu, job)
    yield f"{MODEL} on 512 GPUs in process: {time.perf_counter() - began:.2f} s"
    flags = ["--dp", "8", "--tp", "8", "--pp", "8", "--global-batch", "1536", "--recomputation", "full"]
    yield f"as a command: {command('distributed', '--model', MODEL, '--gpu', GPU, *flags):.1f} s"
    began = time.perf_counter()
    answer = Search(predictor(), TrainingConfiguration(global_batch=1536))
    answer.run([(gpu, 512)])
    yield f"search over 512 GPUs: {len(answer.candidates)} configurations fit; {time.perf_counter() - began:.1f} s"


def convnets() -> Iterator[str]:
    """Fitting, counting next to torch's own FLOP counter, predicting, and the command."""
    own, timm = read_points(OWN / "points.csv.gz"), points_of("benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv")
    predictor = convmeter.ConvNetPredictor.fit(own)
    cell = predictor.cells[0]
    resnet50 = known_metrics().query("network == 'resnet50' and block == '' and image_size == 224")
    point = resnet50.assign(batch=8, devices=1, nodes=1)
    yield f"fit {len(own)} points, five phases: {median(lambda: convmeter.ConvNetPredictor.fit(own)):.2f} s"
    yield f"fit {len(timm)} points of timm: {median(lambda: convmeter.ConvNetPredictor.fit(timm)):.2f} s"
    predicting = median(lambda: predictor.predict(cell, point))
    yield f"predict five phases from metrics: {1e3 * predicting:.1f} ms"
    network, inputs = find_network("resnet50", 224)

    def count_by_torch() -> None:
        with torch.no_grad(), FlopCounterMode(display=False):
            network.eval()(*inputs)

    ours, theirs = median(lambda: count(network, inputs, "resnet50", 224)), median(count_by_torch)
    yield f"count resnet50 at 224: {1e3 * ours:.0f} ms, {ours / theirs:.2f} times torch's FlopCounterMode"
    with tempfile.TemporaryDirectory() as folder:
        predictor.save(Path(folder))
        for size, known in ((224, "counted already"), (256, "not counted already")):
            seconds = command("convmeter", "--network", "resnet50", "--image-size", str(size), "--model", folder)
            yield f"as a command, resnet50 at {size}, {known}: {seconds:.1f} s"


def occupancy() -> Iterator[str]:
    """Reading each network."""
    readings = {name: median(partial(read, name), 3, time.process_time) for name in NETWORKS}
    slowest = max(readings, key=readings.__getitem__)
    yield f"reading: median {statistics.median(readings.values()):.2f} s, slowest {readings[slowest]:.2f} s ({slowest})"


def read(name: str) -> None:
    """From the name of a network to its graph."""
    graph_of_module(*build_network(complete(NetworkConfiguration(name, 1))), name, 1)


def median(call: Callable[[], object], repeats: int = REPEATS, now: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of a call, after one to warm up."""
    times = []
    for _ in range(repeats + 1):
        began = now()
        call()
        times.append(now() - began)
    return statistics.median(times[1:])


def command(*arguments: str) -> float:
    """Seconds of `epochcast predict-model` in a process of its own."""
    began = time.perf_counter()
    epochcast = Path(sys.executable).with_name("epochcast")
    subprocess.run([epochcast, "predict-model", *arguments], check=True, capture_output=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    options(__doc__, page=False).parse_args()
    torch.set_num_threads(1)
    print(f"load (1, 5, 15 min): {' '.join(f'{load:.1f}' for load in os.getloadavg())}, {os.cpu_count()} cores")
    for measure in (distributed, convnets, occupancy):
        for line in measure():
            print(line, flush=True)
