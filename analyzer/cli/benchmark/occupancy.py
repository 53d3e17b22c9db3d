"""``epochcast benchmark occupancy``: collect the labels that predictors of GPU occupancy are fitted on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from ....extras import how_to_install
from ....regressor import Catalog, load_catalog
from ...errors import InputError
from .. import progress, terminal
from ..quantities import Duration
from ..shared_options import device_option, gpus_option, json_option, table_out_option

if TYPE_CHECKING:
    from ...backends.occupancy.measurement.collection import Bench

_STEADY_SECONDS = {"cuda": 1.5, "cpu": 0.5}


@click.command("occupancy")
@device_option
@click.option(
    "--network",
    "networks",
    multiple=True,
    metavar="NAME",
    help="Network: a name in Table II, torchvision or timm, or package.module:factory (repeatable). "
    "[default: 30 of Table II and its relatives]",
)
@click.option(
    "--configurations",
    type=click.IntRange(min=1),
    default=18,
    show_default=True,
    metavar="N",
    help="Configurations to draw per network, in the ranges of Table II.",
)
@click.option(
    "--precision",
    "precisions",
    type=click.Choice(["fp32", "fp16", "bf16"]),
    multiple=True,
    metavar="NAME",
    help="Precision: fp32, fp16 or bf16 (repeatable). [default: fp32]",
)
@click.option("--ncu", is_flag=True, help="Also measure achieved occupancy with Nsight Compute (rows labelled 'ncu').")
@click.option("--gpu", metavar="NAME", help="GPU to model the kernels for (with --device cpu).")
@gpus_option
@click.option(
    "--budget",
    type=Duration("seconds", least=0),
    default=1500.0,
    help="Time to measure for: seconds, or 20m, 1h. [default: 25m]",
)
@click.option("--seed", type=int, metavar="N", default=0, show_default=True, help="Seed of the configurations and their order.")
@table_out_option
@json_option
def occupancy(
    device: Literal["cpu", "cuda"],
    networks: tuple[str, ...],
    configurations: int,
    precisions: tuple[str, ...],
    ncu: bool,
    gpu: str | None,
    gpus: Path | None,
    budget: float,
    seed: int,
    out: Path,
    as_json: bool,
) -> int:
    """Measure the GPU occupancy of inference in random configurations, with step time, NVML utilisation and memory.

    A profiler records how each kernel of a step was launched, and the occupancy is calculated from that (labels
    'launch_config'). The kernels go into FILE.kernels.csv.gz. The order is random, so that a run that is stopped early has
    measured a fair sample; the same command continues it.

    The CPU runs no kernels: they are modelled for the GPU given by --gpu (labels 'modelled', no measurement of any GPU).
    Steps that are short enough are also run and timed on the CPU. Exits 1 if the table stays empty.

    \b
    Example: epochcast benchmark occupancy --device cuda --configurations 10 \\
                 --budget 20m --out points.csv
    """
    try:
        from ...backends.occupancy.measurement.collection import collect
        from ...backends.occupancy.measurement.plan import plan
    except ImportError as error:
        raise InputError(f"this needs PyTorch, which cannot be loaded ({error}); {how_to_install('occupancy')}") from error
    from ...backends.occupancy.networks import NETWORKS

    bench = _bench(device, load_catalog(gpus), gpu, ncu)
    _check_names(networks)
    planned = plan(networks or tuple(NETWORKS), configurations, precisions or ("fp32",), seed)
    collected = collect(
        planned, out, bench, budget, lambda done, whole: progress.show(f"epochcast: {done}/{whole} configurations")
    )
    progress.clear()
    answer = {
        "rows": collected.rows,
        "new": collected.new,
        "left": collected.left,
        "failed": collected.failed,
        "reasons": dict(collected.reasons),
        "problems": list(collected.problems),
        "gpu": bench.gpu,
        "labels": list(bench.labels),
    }
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        left = f"; {collected.left} configurations are left for another run" if collected.left else ""
        failed = f"; {collected.failed} could not be measured, or not wholly" if collected.failed else ""
        what = "modelled, not measured" if device == "cpu" else "measured"
        terminal.say(f"{out}: {collected.rows} rows, {collected.new} of them new, of {bench.gpu} ({what}){left}{failed}")
        for reason, count in collected.reasons.items():
            terminal.say(f"  {count} x {reason}")
        for problem in collected.problems:
            terminal.say(f"  {problem}")
    return 0 if collected.rows else 1


def _bench(device: str, catalog: Catalog, gpu: str | None, ncu: bool) -> Bench:
    from ...backends.distributed.operator_time.profile import check_device

    check_device(device)
    if device == "cpu":
        if gpu is None:
            raise InputError("on a CPU no kernels of a GPU run; name the GPU that they are to be modelled for by --gpu")
        if ncu:
            raise InputError("ncu measures kernels of a GPU, of which there are none with --device cpu; leave out --ncu")
        from ...backends.occupancy.measurement.modelled_bench import ModelledBench

        return ModelledBench(catalog.resolve(gpu), _STEADY_SECONDS[device])
    if gpu is not None:
        raise InputError(f"--device cuda measures the GPU that is here, not {gpu!r}; leave out --gpu")
    from ...backends.occupancy.measurement.gpu_bench import GpuBench
    from ...backends.occupancy.measurement.ncu import Ncu, find_ncu

    return GpuBench(catalog, _STEADY_SECONDS[device], Ncu(find_ncu()) if ncu else None)


def _check_names(networks: Sequence[str]) -> None:
    """Raise InputError for a network that cannot be built; those of Table II may still lack their library."""
    from ...backends.occupancy.configuration import Configuration
    from ...backends.occupancy.networks.build_network import build_network

    for name in networks:
        build_network(Configuration(name, 1))
