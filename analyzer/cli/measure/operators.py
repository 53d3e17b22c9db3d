"""``epochcast measure operators``: collect the operator times that distributed training is predicted from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import click

from ....extras import how_to_install
from ...errors import InputError
from .. import progress, terminal
from ..quantities import Duration
from ..shared_options import device_option, json_option

_MODELS = ("llama-3.1-8b", "gpt-2-small", "bert-base", "vit-b/16", "resnet-50")


@click.command()
@device_option
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME",
    help=f"Model whose operators to measure (repeatable). [default: {', '.join(_MODELS)}]",
)
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    metavar="NAME",
    help="Precision to measure in (repeatable). [default: fp32, bf16]",
)
@click.option(
    "--budget",
    type=Duration("seconds", least=0),
    default=600.0,
    help="Time to measure for: seconds, or 20m, 1h. [default: 10m]",
)
@click.option("--seed", type=int, metavar="N", default=0, show_default=True, help="Seed of the order and the random operators.")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE.csv", help="Corpus (CSV) to start or continue."
)
@json_option
def operators(
    device: Literal["cpu", "cuda"],
    models: tuple[str, ...],
    precisions: tuple[str, ...],
    budget: float,
    seed: int,
    out: Path,
    as_json: bool,
) -> int:
    """Time the operators of models at several batch sizes, and random operators, into a corpus.

    The order is random, so that a run that is stopped early has measured a fair sample; the same command continues it.
    Predictions learn operator times from such a corpus or look them up in it. Exits 1 if nothing could be measured.

    \b
    Example: epochcast measure operators --device cuda --precision bf16 \\
                 --budget 15m --out operators.csv
    """
    from ...backends.distributed.precision import precision_named

    wanted = [precision_named(name) for name in precisions or ("fp32", "bf16")]
    try:
        from ...backends.distributed.operator_time.collection import collect, plan
    except ImportError as error:
        raise InputError(f"this needs PyTorch, which cannot be loaded ({error}); {how_to_install('torch')}") from error
    from ...backends.distributed.operator_time.profile import check_device

    check_device(device)
    progress.show("epochcast: tracing models")
    items = plan(models or _MODELS, wanted, device, seed)
    collected = collect(items, out, device, budget, lambda done, whole: progress.show(f"epochcast: {done}/{whole} operators"))
    progress.clear()
    answer = {"rows": collected.rows, "new": collected.new, "left": collected.left, "failed": collected.failed}
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        left = f"; {collected.left} are left for another run" if collected.left else ""
        failed = f"; {collected.failed} could not be run" if collected.failed else ""
        terminal.say(f"{out}: {collected.rows} operator times, {collected.new} of them new{left}{failed}")
    return 0 if collected.rows else 1
