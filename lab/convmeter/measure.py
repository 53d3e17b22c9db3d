"""Time inference and the phases of training of networks and blocks, at several image sizes and batches.

The order is random, so a run that stops early has still measured a fair sample; the same command continues it. On the CPU it
uses torch's number of threads (OMP_NUM_THREADS). `epochcast fit convmeter` fits on the table. Exits 1 if it stays empty.

python -m lab.measure convmeter --device cuda --precision fp32 --precision amp-bf16 --budget 1800 --out points.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from epochcast.analyzer.backends.distributed.backend import require_torch
from epochcast.analyzer.backends.distributed.plan.job import precision_named
from epochcast.analyzer.cli import progress
from epochcast.analyzer.errors import InputError
from lab.commands import Nothing


def options(parser: argparse.ArgumentParser) -> None:
    """What to measure, where, for how long, and into which table."""
    parser.add_argument("--device", required=True, choices=("cuda", "cpu"))
    parser.add_argument(
        "--network",
        action="append",
        default=[],
        help="a name in torchvision or timm, or package.module:factory (repeatable; default: 31 of torchvision's)",
    )
    parser.add_argument(
        "--block",
        action="append",
        default=[],
        metavar="NETWORK/BLOCK",
        help="such as resnet50/layer2.1 or resnet50/Bottleneck4 (repeatable; default: 12 blocks, none with --network)",
    )
    parser.add_argument("--image-size", type=int, action="append", help="pixels (repeatable; default: 32, 64, 128, 224)")
    parser.add_argument(
        "--batch", type=int, action="append", help="images (repeatable; default: powers of 2, up to 256 on cuda, 16 on cpu)"
    )
    parser.add_argument(
        "--precision",
        action="append",
        choices=("fp32", "tf32", "amp-bf16", "amp-fp16"),
        help="repeatable (default: fp32); tf32 on cuda alone",
    )
    parser.add_argument("--budget", type=float, default=1200.0, help="seconds to measure for")
    parser.add_argument("--out", type=Path, required=True, help="table (CSV) to start or continue")


def study(asked: argparse.Namespace) -> dict[str, Any]:
    """Measure until the budget is spent."""
    require_torch()
    from lab.convmeter import collection
    from lab.convmeter.device import check_device

    check_device(asked.device)
    if asked.device == "cpu" and "tf32" in (asked.precision or ()):
        raise InputError("a CPU does not compute in 'tf32'; choose fp32, amp-bf16 or amp-fp16")
    networks = [(name, "") for name in asked.network] + [_network_and_block(text) for text in asked.block]
    progress.show("counting networks")
    planned = collection.plan(
        networks or [*((name, "") for name in collection.NETWORKS), *collection.BLOCKS],
        asked.image_size or collection.IMAGE_SIZES,
        asked.batch or collection.BATCHES[asked.device],
        [precision_named(name) for name in asked.precision or ("fp32",)],
        asked.device,
    )
    tell = lambda done, total: progress.show(f"{done}/{total} points")  # noqa: E731
    collected = collection.collect(planned.items, asked.out, asked.device, asked.budget, tell)
    answer = {**vars(collected), "too_long": planned.too_long, "unsupported": dict(planned.unsupported)}
    return answer if collected.rows else Nothing(answer)


def _network_and_block(text: str) -> tuple[str, str]:
    network, slash, block = text.rpartition("/")
    if not (network and slash and block):
        raise InputError(f"{text!r} names no block; give NETWORK/BLOCK, such as resnet50/layer2.1")
    return network, block
