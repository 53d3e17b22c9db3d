"""How long fitting, counting and predicting take, counting beside torch's own FLOP counter; part `speed` of docs/convmeter.md.

Run: OMP_NUM_THREADS=1 EPOCHCAST_SHARED=../shared python -m benchmarks.convmeter.speed [--write]      (needs torch, torchvision)
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from epochcast.analyzer.backends.convmeter.counting import count
from epochcast.analyzer.backends.convmeter.known_metrics import known_metrics
from epochcast.analyzer.backends.convmeter.points import read_points
from epochcast.analyzer.backends.convmeter.predictor import Predictor
from epochcast.analyzer.backends.networks.find_network import find_network

from .public_tables import markdown_table, points_of, write_part

REPEATS = 7
OWN = Path(__file__).parents[2] / "data/convmeter_cpu/points.csv.gz"
TIMM = "benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv"
NETWORKS = ("resnet18", "resnet50", "densenet121", "efficientnet_b0")


def main() -> None:
    """Print the table; --write puts it into docs/convmeter.md."""
    write_part("speed", __doc__, lambda _: lines())


def lines() -> Sequence[str]:
    """Markdown of the part."""
    own, timm = read_points(OWN), points_of(TIMM)
    predictor = Predictor.fit(own)
    (cell,) = predictor.cells
    point = (
        known_metrics().query("network == 'resnet50' and block == '' and image_size == 224").assign(batch=8, devices=1, nodes=1)
    )
    rows = [
        (f"fit our own table, {len(own)} points, five phases", _milliseconds(lambda: Predictor.fit(own))),
        (f"fit timm's, {len(timm)} points, inference", _milliseconds(lambda: Predictor.fit(timm))),
        (
            "predict a network from its metrics, five phases",
            _milliseconds(lambda: predictor.predict(point, cell.device, cell.precision)),
        ),
    ]
    for name in NETWORKS:
        network, inputs = find_network(name, 224)
        ours = _seconds(lambda network=network, inputs=inputs, name=name: count(network, inputs, name, 224))
        torchs = _seconds(lambda network=network, inputs=inputs: _flops(network, inputs))
        ratio = f"{ours / torchs:.2f} times torch's FlopCounterMode, which takes {1e3 * torchs:.0f} ms"
        rows.append((f"count {name} at 224 ({ratio})", f"{1e3 * ours:.0f} ms"))
    rows.append(("`predict-model convmeter` as a command, resnet50 at 224", _command(predictor, 224)))
    rows.append(
        ("the same at 256, which is not counted already (torch and torchvision are imported)", _command(predictor, 256))
    )
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    return [*markdown_table(("median of 7", "time"), rows), "", f"One core; load (1, 5, 15 min) {load}."]


def _flops(network: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    with torch.no_grad(), FlopCounterMode(display=False):
        network.eval()(*inputs)


def _seconds(call: Callable[[], object]) -> float:
    """Median of one call, after one to warm up."""
    call()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _milliseconds(call: Callable[[], object]) -> str:
    return f"{1e3 * _seconds(call):.3g} ms"


def _command(predictor: Predictor, image_size: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        predictor.save(Path(folder))
        arguments = ["--network", "resnet50", "--image-size", str(image_size), "--model", folder]
        began = time.perf_counter()
        epochcast = Path(sys.executable).with_name("epochcast")
        subprocess.run([epochcast, "predict-model", "convmeter", *arguments], check=True, capture_output=True)
        return f"{time.perf_counter() - began:.1f} s"


if __name__ == "__main__":
    main()
