"""Time the operators of models at several batch sizes, and random operators, into a corpus.

The order is random, so a run that stops early has still measured a fair sample; the same command continues it.
Predictions learn operator times from such a corpus or look them up in it. At least 24 operators are measured, even
beyond the --budget. Exits 1 if nothing could be measured.

python -m lab.measure operators --device cuda --precision bf16 --budget 900 --out operators.csv
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from epochcast.analyzer.backends.distributed.backend import require_torch
from epochcast.analyzer.backends.distributed.plan.job import precision_named
from epochcast.analyzer.cli import progress
from lab.commands import Nothing

_MODELS = ["llama-3.1-8b", "gpt-2-small", "bert-base", "vit-b/16", "resnet-50"]
_PRECISIONS = ["fp32", "bf16"]


def options(parser: argparse.ArgumentParser) -> None:
    """Which operators to measure, where and for how long."""
    parser.add_argument("--device", required=True, choices=("cuda", "cpu"))
    parser.add_argument("--model", action="append", help=f"repeatable (default: {', '.join(_MODELS)})")
    parser.add_argument("--precision", action="append", help=f"repeatable (default: {', '.join(_PRECISIONS)})")
    parser.add_argument("--budget", type=float, default=600.0, help="seconds to list and measure operators")
    parser.add_argument("--seed", type=int, default=0, help="of the order and the random operators")
    parser.add_argument("--out", type=Path, required=True, help="corpus (CSV) to start or continue")


def study(asked: argparse.Namespace) -> dict[str, Any]:
    """Measure, and write the corpus."""
    began = time.monotonic()
    precisions = [precision_named(name) for name in asked.precision or _PRECISIONS]
    require_torch()
    from lab.convmeter.device import check_device
    from lab.distributed.collection import collect, plan

    check_device(asked.device)
    operators = plan(asked.model or _MODELS, precisions, asked.device, asked.seed, progress.show)
    left = asked.budget - (time.monotonic() - began)
    tell = lambda done, total: progress.show(f"{done}/{total} operators")  # noqa: E731
    collected = collect(operators, asked.out, asked.device, left, tell)
    return vars(collected) if collected.rows else Nothing(vars(collected))
