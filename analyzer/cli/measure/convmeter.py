"""``epochcast measure convmeter``: collect the points that ConvMeter's forms are fitted on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import click

from ....extras import how_to_install
from ...errors import InputError
from .. import progress, terminal
from ..quantities import Duration
from ..shared_options import device_option, json_option, table_out_option


@click.command("convmeter")
@device_option
@click.option(
    "--network",
    "networks",
    multiple=True,
    metavar="NAME",
    help="Network to time: a name in torchvision or timm, or package.module:factory (repeatable). "
    "[default: 31 of torchvision's]",
)
@click.option(
    "--block",
    "blocks",
    multiple=True,
    metavar="NETWORK/BLOCK",
    help="Block of a network, such as resnet50/layer2.1 or resnet50/Bottleneck4 (repeatable). "
    "[default: 12 blocks, none with --network]",
)
@click.option(
    "--image-size",
    "image_sizes",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="PX",
    help="Side of the square images in pixels (repeatable). [default: 32, 64, 128, 224]",
)
@click.option(
    "--batch",
    "batches",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="N",
    help="Images per device and step (repeatable). [default: powers of 2, up to 256 on cuda, 16 on cpu]",
)
@click.option(
    "--precision",
    "precisions",
    type=click.Choice(["fp32", "tf32", "amp-bf16", "amp-fp16"]),
    multiple=True,
    metavar="NAME",
    help="Precision: fp32, tf32, amp-bf16 or amp-fp16 (repeatable). [default: fp32]",
)
@click.option(
    "--optimizer",
    type=click.Choice(["adam", "sgd"]),
    default="adam",
    show_default=True,
    help="Optimizer to train with (SGD with momentum).",
)
@click.option(
    "--budget",
    type=Duration("seconds", least=0),
    default=1200.0,
    help="Time to measure for: seconds, or 20m, 1h. [default: 20m]",
)
@click.option("--seed", type=int, metavar="N", default=0, show_default=True, help="Seed of the random order.")
@table_out_option
@json_option
def convmeter(
    device: Literal["cpu", "cuda"],
    networks: tuple[str, ...],
    blocks: tuple[str, ...],
    image_sizes: tuple[int, ...],
    batches: tuple[int, ...],
    precisions: tuple[str, ...],
    optimizer: Literal["adam", "sgd"],
    budget: float,
    seed: int,
    out: Path,
    as_json: bool,
) -> int:
    """Time inference and the phases of training of networks and blocks, at several image sizes and batches.

    The order is random, so that a run that is stopped early has measured a fair sample; the same command continues it. On the
    CPU it uses torch's number of threads (OMP_NUM_THREADS). Started by torchrun, one process per device, it trains with
    DistributedDataParallel and measures only whole networks. Exits 1 if nothing could be measured.

    \b
    Example: epochcast measure convmeter --device cuda --precision fp32 \\
                 --precision amp-bf16 --budget 30m --out points.csv
    """
    try:
        from ...backends.convmeter.measurement import collection, plan
        from ...backends.convmeter.measurement.workers import workers
    except ImportError as error:
        raise InputError(f"this needs PyTorch, which cannot be loaded ({error}); {how_to_install('convnets')}") from error
    from ...backends.distributed.operator_time.profile import check_device
    from ...backends.distributed.precision import precision_named

    check_device(device)
    if device == "cpu" and "tf32" in precisions:
        raise InputError("a CPU does not compute in 'tf32'; choose fp32, amp-bf16 or amp-fp16")
    named = [_network_and_block(text) for text in blocks]
    if not networks and not blocks:
        networks, named = plan.NETWORKS, list(plan.BLOCKS)
    with workers(device) as group:
        progress.show("epochcast: counting networks")
        planned = plan.plan(
            networks,
            named if group.devices == 1 else (),
            image_sizes or plan.IMAGE_SIZES,
            batches or plan.BATCHES[device],
            [precision_named(name) for name in precisions or ("fp32",)],
            device,
            seed,
        )

        def tell(done: int, whole: int) -> None:
            progress.show(f"epochcast: {done}/{whole} points")

        collected = collection.collect(planned, out, device, optimizer, budget, group, tell)
        progress.clear()
        if group.rank:
            return 0
    answer = {
        "rows": collected.rows,
        "new": collected.new,
        "left": collected.left,
        "failed": collected.failed,
        "reasons": dict(collected.reasons),
        "too_long": planned.too_long,
        "unsupported": dict(planned.unsupported),
    }
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        left = f"; {collected.left} are left for another run" if collected.left else ""
        failed = f"; {collected.failed} could not be run" if collected.failed else ""
        terminal.say(f"{out}: {collected.rows} points, {collected.new} of them new{left}{failed}")
        for reason, count in collected.reasons.items():
            terminal.say(f"  {count} x {reason}")
        if planned.too_long:
            terminal.say(f"  {planned.too_long} would take minutes each and were left out")
        for what, reason in planned.unsupported.items():
            terminal.say(f"  no {what}: {reason}")
    return 0 if collected.rows else 1


def _network_and_block(text: str) -> tuple[str, str]:
    network, slash, block = text.rpartition("/")
    if not (network and slash and block):
        raise InputError(f"{text!r} names no block; give NETWORK/BLOCK, such as resnet50/layer2.1")
    return network, block
