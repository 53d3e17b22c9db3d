"""Time inference and the phases of training of networks and blocks, at several image sizes and batches.

The order is random, so a run that stops early has still measured a fair sample; the same command continues it. On the CPU it
uses torch's number of threads (OMP_NUM_THREADS). Started by torchrun, one process per device, it trains with
DistributedDataParallel and measures only whole networks. Exits 1 if nothing could be measured. `epochcast fit convmeter` fits
to the table.

python -m lab.measure convmeter --device cuda --precision fp32 --precision amp-bf16 --budget 1800 --out points.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from epochcast.analyzer.backends.distributed.backend import require_torch
from epochcast.analyzer.backends.distributed.precision import precision_named
from epochcast.analyzer.cli import progress
from epochcast.analyzer.errors import InputError
from lab.commands import Nothing

_PRECISIONS = ("fp32", "tf32", "amp-bf16", "amp-fp16")


def options(parser: argparse.ArgumentParser) -> None:
    """What to measure, where, and for how long."""
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
        "--batch",
        type=int,
        action="append",
        help="images per device (repeatable; default: powers of 2 to 256 on cuda, 16 on cpu)",
    )
    parser.add_argument("--precision", action="append", choices=_PRECISIONS, help="repeatable (default: fp32)")
    parser.add_argument("--optimizer", choices=("adam", "sgd"), default="adam", help="to train with (SGD with momentum)")
    parser.add_argument("--budget", type=float, default=1200.0, help="seconds to measure for")
    parser.add_argument("--seed", type=int, default=0, help="of the random order")
    parser.add_argument("--out", type=Path, required=True, help="table (CSV) to start or continue")


def study(asked: argparse.Namespace) -> dict[str, Any] | None:
    """Measure until the time is over; None in all processes but the first."""
    require_torch()
    from lab.convmeter import collection, plan
    from lab.convmeter.device import check_device
    from lab.convmeter.workers import workers

    if asked.device == "cpu" and "tf32" in (asked.precision or ()):
        raise InputError("a CPU does not compute in 'tf32'; choose fp32, amp-bf16 or amp-fp16")
    check_device(asked.device)
    networks, blocks = asked.network, [_network_and_block(text) for text in asked.block]
    if not networks and not blocks:
        networks, blocks = list(plan.NETWORKS), list(plan.BLOCKS)
    with workers(asked.device) as group:
        progress.show("counting networks")
        planned = plan.plan(
            networks,
            blocks if group.devices == 1 else (),
            asked.image_size or plan.IMAGE_SIZES,
            asked.batch or plan.BATCHES[asked.device],
            [precision_named(name) for name in asked.precision or ("fp32",)],
            asked.device,
            asked.seed,
        )
        tell = lambda done, total: progress.show(f"{done}/{total} points")  # noqa: E731
        collected = collection.collect(planned, asked.out, asked.device, asked.optimizer, asked.budget, group, tell)
    if group.rank:
        return None
    answer = {
        **vars(collected),
        "reasons": dict(collected.reasons),
        "too_long": planned.too_long,
        "unsupported": dict(planned.unsupported),
    }
    return answer if collected.rows else Nothing(answer)


def _network_and_block(text: str) -> tuple[str, str]:
    network, slash, block = text.rpartition("/")
    if not (network and slash and block):
        raise InputError(f"{text!r} names no block; give NETWORK/BLOCK, such as resnet50/layer2.1")
    return network, block
