"""``python -m lab.measure occupancy``: collect the trainings that predictors of GPU occupancy and peak memory are fitted on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins import Plugin
from epochcast.analyzer.plugins.answer import TableMeasured
from epochcast.analyzer.plugins.question import Option, Question
from epochcast.extras import how_to_install
from epochcast.regressor import load_catalog


class MeasureQuestion(Question):
    """What to measure, for how long, and into which table."""

    device: Annotated[Literal["cuda"], Field(description="Device to measure on.")] = "cuda"
    networks: Annotated[
        list[str],
        Option("--network", "NAME", default="30 of Table II and its relatives"),
        Field(
            default_factory=list,
            description="Network: a name in Table II, torchvision or timm, or package.module:factory.",
        ),
    ]
    batches: Annotated[
        list[Annotated[int, Field(ge=1)]],
        Option("--batch", "N", default="8, 32, 128"),
        Field(default_factory=list, description="Samples per step."),
    ]
    seconds: Annotated[
        float,
        Option(metavar="S", default="20"),
        # The agent reads NVML's utilisation and memory once a second.
        Field(ge=2, description="Seconds to train each of them for, after its start; 2 or more."),
    ] = 20.0
    budget: Annotated[
        float,
        Option(metavar="TIME", default="1h", duration=True),
        Field(
            ge=0,
            description="Time for the whole command, the start of each training included: seconds, or 20m, 1h. The first "
            "training always runs; another begins only if the longest so far would still fit.",
        ),
    ] = 3600.0
    seed: Annotated[int, Option(metavar="N", default="0"), Field(description="Seed of the random order.")] = 0
    out: Annotated[Path, Option(metavar="FILE.csv"), Field(description="Table (CSV) to start or continue.")]


class MeasureAnswer(TableMeasured):
    """How many trainings the table holds, and why it lacks others."""

    reasons: dict[str, int]
    gpu: str

    @property
    def text(self) -> str:
        """A sentence, and a line for each reason."""
        left = f"; {self.left} trainings are left for another run" if self.left else ""
        failed = f"; {self.failed} could not be measured" if self.failed else ""
        counts = f"{self.out}: {self.rows} trainings, {self.new} of them new, on {self.gpu}{left}{failed}"
        return "\n".join([counts, *(f"  {count} x {reason}" for reason, count in self.reasons.items())])


class OccupancyMeasurement(Plugin):
    """Measures what networks take of a GPU while they train on it."""

    name = "occupancy"
    summary = "Measure GPU occupancy and memory while networks train."
    manual = """\
    Measure SM occupancy, SM activity, utilisation and peak memory of networks while they train on this GPU.

    Each network trains in FP32 with Adam on random data while the agent reads the GPU as `epochcast record` does (GPM or DCGM
    for the SMs, else -1). Means are over the steps alone; peak memory is what the whole device uses, as nvidia-smi shows it, so
    let nothing else run there. A training run that does not fit becomes a row without figures (OOM_CRASH).

    The order is random, so a run that stops early has still measured a fair sample; the same command continues it. Exits 1
    if the table stays empty. Validated on an H200.

    \b
    Example: python -m lab.measure occupancy --network resnet50 --batch 32 \\
                 --batch 64 --budget 30m --out trainings.csv
    """
    Question, Answer = MeasureQuestion, MeasureAnswer

    def answer(self, question: MeasureQuestion) -> MeasureAnswer:
        """Train and record until the budget is spent; raises InputError, AgentError."""
        deadline = time.monotonic() + question.budget
        try:
            import torch

            from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration
            from epochcast.analyzer.backends.occupancy.networks import NETWORKS
            from epochcast.analyzer.backends.occupancy.networks.build_network import build_network
            from lab.occupancy.measurement.collection import BATCHES, collect, plan
        except ImportError as error:
            raise InputError(f"this needs PyTorch, which cannot be loaded ({error}); {how_to_install('occupancy')}") from error
        from lab.campaign.device import choose_device

        if not torch.cuda.is_available():
            raise InputError("torch finds no CUDA device here; measure where the GPU is")
        for name in question.networks:  # those of the default may lack their library
            build_network(NetworkConfiguration(name, 1))
        planned = plan(question.networks or tuple(NETWORKS), question.batches or BATCHES, question.seed)
        device = choose_device(question.device, None, torch.cuda.device_count())
        gpu = load_catalog(self._settings.gpus).resolve(device.name).name
        collected = collect(
            planned,
            question.out,
            device,
            gpu,
            question.seconds,
            deadline,
            lambda done, total: self._settings.report(f"{done}/{total} trainings"),
        )
        return MeasureAnswer(
            rows=collected.rows,
            new=collected.new,
            left=collected.left,
            failed=collected.failed,
            reasons=dict(collected.reasons),
            gpu=gpu,
            out=question.out,
        )
