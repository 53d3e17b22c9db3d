"""How far off a model is that does not know the precision: real FP32 and FP16 training steps of ten ConvNets on three GPUs.

The rows are `convnets/torchvision_step_times.csv.gz` (one GPU, batch 12, 224 pixels, forward and backward without an update;
the median over hosts). FP16 is `.half()`; FP32 of the A100 is taken as TF32, torch's setting for convolutions. A step is told
from its traced graph by three terms fitted on each GPU (relative error, not negative): FLOPs over the peak of each operator's
dtype, bytes over the memory's bandwidth, kernels. Every figure leaves the model out that it is for:

- blind: fitted on FP32 steps, and the FP32 graph told for both precisions;
- unseen: fitted on FP32 steps, the FP16 graph told for FP16;
- aware: fitted on both, FLOPs of each precision a term of their own.

Usage: EPOCHCAST_SHARED=../shared python -m benchmarks.distributed.precision_blindness [--write]
"""

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.optimize import nnls

from epochcast.analyzer.backends import networks
from epochcast.analyzer.backends.distributed.graph import Graph
from epochcast.analyzer.backends.distributed.graphs import ModelGraphs
from epochcast.analyzer.backends.distributed.job import Job
from epochcast.analyzer.backends.distributed.precision import peak_flops, precision_named
from epochcast.analyzer.backends.distributed.trace import trace
from epochcast.regressor import load_catalog

from ..page import DISTRIBUTED

GPUS = {"A100-SXM4-40GB": "A100 SXM4 40GB", "GeForce RTX 2080 Ti": "RTX 2080 Ti", "TITAN Xp": "TITAN Xp"}
RESNETS = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")
NETWORKS = {"vgg11": "VGG11", "vgg13": "VGG13", "vgg16": "VGG16", "vgg19": "VGG19", "mobilenet_v2": "MobileNetV2"}
BATCH, SIDE = 12, 224
GUESSES = ("blind", "unseen", "aware")


def graph_of(name: str, precision: str) -> Graph:
    """One training step of a ConvNet."""
    if name in RESNETS:
        return ModelGraphs.of(name).graph(Job(micro_batch=BATCH, global_batch=BATCH, precision=precision))
    with torch.device("meta"):
        module = networks.build(NETWORKS[name], SIDE, 1000)
        images = torch.empty(BATCH, 3, SIDE, SIDE)
    return trace(module, (images,), precision_named(precision), "cuda", None, name)


def terms(graph: Graph, gpu, precision: str) -> list[float]:
    """Seconds that FLOPs and bytes would take at the data sheet's figures, and kernels."""
    operators = [one for block in (graph.before, *graph.blocks, graph.after) for one in block.operators]
    tf32 = precision_named(precision).tf32
    computing = sum(one.flops / peak_flops(gpu, one.dtype, tf32) for one in operators if one.flops)
    return [computing, sum(one.bytes for one in operators) / gpu.memory_bandwidth, len(operators)]


def told(train: np.ndarray, seconds: np.ndarray, row: np.ndarray) -> float:
    """Seconds of a row of terms, from the terms (n, k) and seconds (n,) of others."""
    scale = train.max(axis=0)
    scale[scale == 0] = 1.0
    coefficients, _ = nnls(train / scale / seconds[:, None], np.ones(len(seconds)))
    return float(row / scale @ coefficients)


def main() -> None:
    """Print every row and the errors by GPU and precision."""
    path = Path(os.environ.get("EPOCHCAST_SHARED", "../shared")) / "data/convnets/torchvision_step_times.csv.gz"
    if not path.exists():
        sys.exit(f"{path} is not there; set EPOCHCAST_SHARED")
    table = pd.read_csv(path).query("kind == 'train' and ngpu == 1 and prec != 'double'")
    measured = table.groupby(["dev", "model", "prec"])["ms"].median() / 1e3
    names, catalog = [*RESNETS, *NETWORKS], load_catalog()
    graphs = {(name, precision): graph_of(name, precision) for name in names for precision in ("fp32", "fp16")}
    rows = []
    for device, gpu_name in GPUS.items():
        gpu = catalog[gpu_name]
        single = "tf32" if gpu.tf32_tensor_flops else "fp32"
        x = {(name, "float"): np.array(terms(graphs[name, "fp32"], gpu, single)) for name in names}
        x |= {(name, "half"): np.array(terms(graphs[name, "fp16"], gpu, "fp16")) for name in names}
        y = {key: float(measured[device, *key]) for key in x}
        apart = {key: np.array([row[0] * (key[1] == "float"), row[0] * (key[1] == "half"), *row[1:]]) for key, row in x.items()}
        for name in names:
            others = [other for other in names if other != name]
            singles = [(other, "float") for other in others]
            both = singles + [(other, "half") for other in others]
            train, seconds = np.array([x[key] for key in singles]), np.array([y[key] for key in singles])
            blind = told(train, seconds, x[name, "float"])
            unseen = told(train, seconds, x[name, "half"])
            known = np.array([apart[key] for key in both]), np.array([y[key] for key in both])
            for precision, guesses in (
                ("FP32", (blind, blind, told(*known, apart[name, "float"]))),
                ("FP16", (blind, unseen, told(*known, apart[name, "half"]))),
            ):
                truth = y[name, "float" if precision == "FP32" else "half"]
                rows.append((gpu_name, name, precision, 1e3 * truth, *(100 * abs(guess / truth - 1) for guess in guesses)))
    result = pd.DataFrame(rows, columns=["gpu", "model", "precision", "ms", *GUESSES])
    print(result.round(1).to_string(index=False))
    lines = [f"| steps | n | {' | '.join(GUESSES)} |", "|---|---|---|---|---|"]
    for keys, own in [*result.groupby(["gpu", "precision"]), *result.groupby("precision")]:
        label = ", ".join(keys) if isinstance(keys, tuple) else f"all, {keys}"
        errors = " | ".join(f"{own[one].mean():.1f} ({own[one].median():.1f})" for one in GUESSES)
        lines.append(f"| {label} | {len(own)} | {errors} |")
    lines += ["", "MAPE and median in percent."]
    print("\n".join(lines))
    if "--write" in sys.argv:
        DISTRIBUTED.fill("PRECISION", lines)


if __name__ == "__main__":
    main()
