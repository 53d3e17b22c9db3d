"""Measure SM occupancy, SM activity, utilisation and peak memory of networks while they train on this GPU.

Each network trains in FP32 with Adam on random data while the agent reads the GPU as `epochcast record` does (GPM or DCGM
for the SMs, else -1). Means are over the steps alone; peak memory is what the whole device uses, as nvidia-smi shows it, so
let nothing else run there. A training run that does not fit becomes a row without figures (OOM_CRASH).

The order is random, so a run that stops early has still measured a fair sample; the same command continues it. Exits 1
if the table stays empty. Validated on an H200.

python -m lab.measure occupancy --network resnet50 --batch 32 --batch 64 --budget 1800 --out trainings.csv
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from epochcast.analyzer.backends.distributed.backend import require_torch
from epochcast.analyzer.cli import progress
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from lab.commands import Nothing, gpus_option

NETWORKS = [
    "lenet",
    "alexnet",
    "vgg11",
    "vgg13",
    "vgg16",
    "resnet18",
    "resnet34",
    "resnet50",
    "convnext_base",
    "mobilenet_v2",
    "efficientnet_b0",
    "densenet121",
    "squeezenet1_0",
    "regnet_y_400mf",
    "shufflenet_v2_x1_0",
    "vit_tiny_patch16_224",
    "vit_small_patch16_224",
    "vit_base_patch16_224",
    "swin_tiny_patch4_window7_224",
    "swin_small_patch4_window7_224",
    "maxvit_tiny_tf_224",
    "lstm",
    "rnn",
    "gru",
    "distilbert",
    "bert",
    "gpt2",
]
"""Those of Table II of the DNN-occu paper but CLIP, and their relatives."""


def options(parser: argparse.ArgumentParser) -> None:
    """What to measure, for how long, and into which table."""
    parser.add_argument(
        "--network",
        action="append",
        help="a name of torchvision or timm, lenet, lstm, rnn, gru, distilbert, bert, gpt2, or package.module:factory "
        "(repeatable; default: 27 of Table II and their relatives)",
    )
    parser.add_argument("--batch", type=int, action="append", help="samples per step (repeatable; default: 8, 32, 128)")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of training after the start; the agent reads memory once a second"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=3600.0,
        help="seconds for all; another training begins only if the longest so far would still fit",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random order")
    parser.add_argument("--out", type=Path, required=True, help="table (CSV) to start or continue")
    gpus_option(parser)


def study(asked: argparse.Namespace) -> dict[str, Any]:
    """Train and record until the budget is spent."""
    deadline = time.monotonic() + asked.budget
    require_torch()
    import torch

    from epochcast.analyzer.backends.occupancy.networks import NetworkConfiguration, build_network
    from lab.campaign.device import choose_device
    from lab.occupancy.measurement.collection import BATCHES, collect, plan

    if not torch.cuda.is_available():
        raise InputError("torch finds no CUDA device here; measure where the GPU is")
    for name in asked.network or ():  # those of the default may lack their library
        build_network(NetworkConfiguration(name, 1))
    planned = plan(asked.network or NETWORKS, asked.batch or BATCHES, asked.seed)
    device = choose_device("cuda", None, torch.cuda.device_count())
    gpu = load_catalog(asked.gpus).resolve(device.name).name
    tell = lambda done, total: progress.show(f"{done}/{total} trainings")  # noqa: E731
    collected = collect(planned, asked.out, device, gpu, asked.seconds, deadline, tell)
    answer = {**vars(collected), "reasons": dict(collected.reasons), "gpu": gpu}
    return answer if collected.rows else Nothing(answer)
