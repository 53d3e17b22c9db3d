"""How far off a model is that does not know the precision: real FP32 and FP16 training steps of ten ConvNets on three GPUs.

The rows are `convnets/torchvision_step_times.csv.gz` (one GPU, batch 12, 224 pixels, forward and backward without an update;
the median over hosts). FP16 is `.half()`; FP32 of the A100 is taken as TF32, torch's setting for convolutions. A step is told
from its traced graph by three terms fitted on each GPU (relative error, not negative): FLOPs over the peak of each operator's
dtype, bytes over the memory's bandwidth, kernels. Every figure leaves the model out that it is for:

- blind: fitted on FP32 steps, and the FP32 graph told for both precisions;
- unseen: fitted on FP32 steps, the FP16 graph told for FP16;
- aware: fitted on both, FLOPs of each precision a term of their own.

Run: python -m lab.speed.distributed.precision_blindness [--write]
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.optimize import nnls

from epochcast.analyzer.backends.distributed.models.graph import Graph
from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs
from epochcast.analyzer.backends.distributed.models.trace import trace
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration, peak_flops, precision_named
from epochcast.regressor import Gpu, load_catalog
from lab.campaign import networks
from lab.speed.page import DISTRIBUTED, markdown_table, options, public, publish

GPUS = {"A100-SXM4-40GB": "A100 SXM4 40GB", "GeForce RTX 2080 Ti": "RTX 2080 Ti", "TITAN Xp": "TITAN Xp"}
RESNETS = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")
OTHERS = {"vgg11": "VGG11", "vgg13": "VGG13", "vgg16": "VGG16", "vgg19": "VGG19", "mobilenet_v2": "MobileNetV2"}
NAMES = (*RESNETS, *OTHERS)
PRECISIONS = {"fp32": "float", "fp16": "half"}
BATCH, SIDE = 12, 224
GUESSES = ("blind", "unseen", "aware")

Floats = NDArray[np.float64]


def lines() -> Iterator[str]:
    """Errors by GPU and precision."""
    table = pd.read_csv(public("convnets/torchvision_step_times.csv.gz")).query("kind == 'train' and ngpu == 1")
    measured = table.groupby(["dev", "prec", "model"])["ms"].median()
    graphs = [[graph_of(name, precision) for name in NAMES] for precision in PRECISIONS]
    errors = []
    for device, called in GPUS.items():
        gpu = load_catalog()[called]
        # of each precision: measured steps, their terms, and these with FLOPs of each precision apart
        steps = [measured[device, word][list(NAMES)].to_numpy(dtype=float) for word in PRECISIONS.values()]
        terms = [
            np.array([terms_of(graph, gpu, precision) for graph in own])
            for precision, own in zip(PRECISIONS, graphs, strict=True)
        ]
        apart = [np.insert(terms[0], 1, 0.0, axis=1), np.insert(terms[1], 0, 0.0, axis=1)]
        for place in range(len(NAMES)):
            others = np.arange(len(NAMES)) != place
            single = terms[0][others], steps[0][others]
            both = np.concatenate([one[others] for one in apart]), np.concatenate([one[others] for one in steps])
            blind = told(*single, terms[0][place])
            for number, precision in enumerate(PRECISIONS):
                guesses = (blind, told(*single, terms[number][place]), told(*both, apart[number][place]))
                off = (100 * abs(guess / steps[number][place] - 1) for guess in guesses)
                errors.append((called, precision.upper(), *off))
    result = pd.DataFrame(errors, columns=["gpu", "precision", *GUESSES])
    rows = []
    for keys, own in [*result.groupby(["gpu", "precision"]), *result.assign(gpu="all").groupby(["gpu", "precision"])]:
        rows.append((", ".join(keys), str(len(own)), *(f"{own[one].mean():.1f} ({own[one].median():.1f})" for one in GUESSES)))
    yield from markdown_table(("steps", "n", *GUESSES), rows)
    yield ""
    yield "MAPE and median in percent."


def graph_of(name: str, precision: str) -> Graph:
    """One training step of a ConvNet."""
    if name in RESNETS:
        return ModelGraphs.of(name).graph(TrainingConfiguration(micro_batch=BATCH, global_batch=BATCH, precision=precision))
    with torch.device("meta"):
        module = networks.build(OTHERS[name], SIDE, 1000)
        images = torch.empty(BATCH, 3, SIDE, SIDE)
    return trace(module, (images,), precision_named(precision), "cuda", None, name)


def terms_of(graph: Graph, gpu: Gpu, precision: str) -> Floats:
    """Seconds that FLOPs and bytes would take at the data sheet's figures, and kernels, shape (3,)."""
    operators = [one for block in (graph.before, *graph.blocks, graph.after) for one in block.operators]
    tf32 = precision == "fp32" and bool(gpu.tf32_tensor_flops)
    computing = sum(
        one.flops / peak_flops(gpu, "tf32" if tf32 and one.dtype == "float32" else one.dtype) for one in operators if one.flops
    )
    return np.array([computing, sum(one.bytes for one in operators) / gpu.memory_bandwidth, len(operators)])


def told(train: Floats, measured: Floats, row: Floats) -> float:
    """What is measured of a row of terms, from the terms (n, k) and what was measured (n,) of others."""
    scale = train.max(axis=0)
    scale[scale == 0] = 1.0
    coefficients, _ = nnls(train / scale / measured[:, None], np.ones(len(measured)))
    return float(row / scale @ coefficients)


if __name__ == "__main__":
    publish(DISTRIBUTED, "PRECISION", lines(), write=options(__doc__).parse_args().write)
