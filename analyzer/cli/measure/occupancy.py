"""``epochcast measure occupancy``: collect the trainings that predictors of GPU occupancy and peak memory are fitted on."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ....extras import how_to_install
from ....regressor import load_catalog
from ...errors import InputError
from .. import progress, terminal
from ..quantities import Duration
from ..shared_options import gpus_option, json_option, table_out_option


@click.command("occupancy")
@click.option("--device", type=click.Choice(["cuda"]), default="cuda", show_default=True, help="Device to measure on.")
@click.option(
    "--network",
    "networks",
    multiple=True,
    metavar="NAME",
    help="Network: a name in Table II, torchvision or timm, or package.module:factory (repeatable). "
    "[default: 30 of Table II and its relatives]",
)
@click.option(
    "--batch",
    "batches",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="N",
    help="Samples per step (repeatable). [default: 8, 32, 128]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=2),  # the agent reads NVML's utilisation and memory once a second
    default=20,
    show_default=True,
    metavar="S",
    help="Seconds to train each of them for, after its start.",
)
@click.option(
    "--budget",
    type=Duration("seconds", least=0),
    default=3600.0,
    help="Time to measure for: seconds, or 20m, 1h. [default: 1h]",
)
@click.option("--seed", type=int, metavar="N", default=0, show_default=True, help="Seed of the random order.")
@gpus_option
@table_out_option
@json_option
def occupancy(
    device: str,
    networks: tuple[str, ...],
    batches: tuple[int, ...],
    seconds: float,
    budget: float,
    seed: int,
    gpus: Path | None,
    out: Path,
    as_json: bool,
) -> int:
    """Measure SM occupancy, SM activity, utilisation and peak memory of networks while they train on this GPU.

    Each network trains in FP32 with Adam on random data while the agent reads the GPU as `epochcast record` does (GPM or DCGM
    for the SMs, else -1). Means are over the steps alone; peak memory is what the whole device uses, as nvidia-smi shows it, so
    let nothing else run there. A training that does not fit is a row without figures (OOM_CRASH).

    The order is random, so that a run that is stopped early has measured a fair sample; the same command continues it. Exits 1
    if the table stays empty. Tried on one GPU, an H200; else tested with stub drivers.

    \b
    Example: epochcast measure occupancy --network resnet50 --batch 32 \\
                 --batch 64 --budget 30m --out trainings.csv
    """
    try:
        import torch

        from ...backends.occupancy.configuration import Configuration
        from ...backends.occupancy.measurement.collection import BATCHES, collect, plan
        from ...backends.occupancy.networks import NETWORKS
        from ...backends.occupancy.networks.build_network import build_network
    except ImportError as error:
        raise InputError(f"this needs PyTorch, which cannot be loaded ({error}); {how_to_install('occupancy')}") from error
    from ...recording.device import choose_device

    if not torch.cuda.is_available():
        raise InputError("torch finds no CUDA device here; measure where the GPU is")
    for name in networks:  # those of the default may lack their library
        build_network(Configuration(name, 1))
    planned = plan(networks or tuple(NETWORKS), batches or BATCHES, seed)
    chosen = choose_device(device, None, torch.cuda.device_count())
    gpu = load_catalog(gpus).resolve(chosen.name).name
    collected = collect(
        planned, out, chosen, gpu, seconds, budget, lambda done, whole: progress.show(f"epochcast: {done}/{whole} trainings")
    )
    progress.clear()
    if as_json:
        counts = {name: getattr(collected, name) for name in ("rows", "new", "left", "failed")}
        click.echo(json.dumps({**counts, "reasons": dict(collected.reasons), "gpu": gpu}, indent=2))
    else:
        left = f"; {collected.left} trainings are left for another run" if collected.left else ""
        failed = f"; {collected.failed} could not be measured" if collected.failed else ""
        terminal.say(f"{out}: {collected.rows} trainings, {collected.new} of them new, on {gpu}{left}{failed}")
        for reason, count in collected.reasons.items():
            terminal.say(f"  {count} x {reason}")
    return 0 if collected.rows else 1
