"""``epochcast measure convmeter``: collect the points that ConvMeter's forms are fitted on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, Field, model_validator

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins import Settings
from epochcast.analyzer.plugins.answer import Answer
from epochcast.analyzer.plugins.question import Option, Question
from epochcast.extras import how_to_install


class ConvMeterMeasurementQuestion(Question):
    """What to measure, where, and for how long."""

    device: Annotated[Literal["cuda", "cpu"], Field(description="Device to measure on.")]
    networks: Annotated[
        list[str],
        Option("--network", "NAME", default="31 of torchvision's"),
        Field(
            default_factory=list,
            description="Network to time: a name in torchvision or timm, or package.module:factory.",
        ),
    ]
    blocks: Annotated[
        list[str],
        Option("--block", "NETWORK/BLOCK", default="12 blocks, none with --network"),
        Field(
            default_factory=list,
            description="Block of a network, such as resnet50/layer2.1 or resnet50/Bottleneck4.",
        ),
    ]
    image_sizes: Annotated[
        list[Annotated[int, Field(ge=1)]],
        Option("--image-size", "PX", default="32, 64, 128, 224"),
        Field(default_factory=list, description="Side of the square images in pixels."),
    ]
    batches: Annotated[
        list[Annotated[int, Field(ge=1)]],
        Option("--batch", "N", default="powers of 2, up to 256 on cuda, 16 on cpu"),
        Field(default_factory=list, description="Images per device and step."),
    ]
    precisions: Annotated[
        list[Literal["fp32", "tf32", "amp-bf16", "amp-fp16"]],
        Option("--precision", "NAME", default="fp32"),
        Field(default_factory=list, description="Precision: fp32, tf32, amp-bf16 or amp-fp16."),
    ]
    budget: Annotated[
        float,
        Option(metavar="SECONDS"),
        Field(ge=0, description="Seconds to measure for."),
    ] = 1200.0
    out: Annotated[Path, Option(metavar="FILE.csv"), Field(description="Table (CSV) to start or continue.")]

    @model_validator(mode="after")
    def _of_what_the_device_computes(self) -> Self:
        if self.device == "cpu" and "tf32" in self.precisions:
            raise ValueError("a CPU does not compute in 'tf32'; choose fp32, amp-bf16 or amp-fp16")
        return self


class ConvMeterMeasurementAnswer(Answer):
    """How many points the table has, and what could not be measured; what is left, the same command measures another time."""

    rows: int
    new: int
    left: int
    failed: int
    out: Annotated[Path, Field(exclude=True)]
    reasons: dict[str, int]
    too_long: int
    unsupported: dict[str, str]

    @property
    def status(self) -> int:
        """1 while the table is empty."""
        return 0 if self.rows else 1

    @property
    def text(self) -> str:
        """Where the points are; below, a line for each reason that some are missing."""
        left = f"; {self.left} are left for another run" if self.left else ""
        failed = f"; {self.failed} could not be run" if self.failed else ""
        lines = [f"{self.out}: {self.rows} points, {self.new} of them new{left}{failed}"]
        lines += [f"  {count} x {reason}" for reason, count in self.reasons.items()]
        if self.too_long:
            lines.append(f"  {self.too_long} would take minutes each and were skipped")
        lines += [f"  no {what}: {reason}" for what, reason in self.unsupported.items()]
        return "\n".join(lines)


class ConvMeterMeasurement:
    """Times networks and blocks on this machine."""

    name: ClassVar[str] = "convmeter"
    summary: ClassVar[str] = "Time inference and the phases of training of networks and blocks."
    manual: ClassVar[str] = """\
    Time inference and the phases of training of networks and blocks, at several image sizes and batches.

    The order is random, so a run that stops early has still measured a fair sample; the same command continues it. On the
    CPU it uses torch's number of threads (OMP_NUM_THREADS). Exits 1 if nothing could be measured.

    \b
    Example: epochcast measure convmeter --device cuda --precision fp32 \\
                 --precision amp-bf16 --budget 1800 --out points.csv
    """
    Question: ClassVar[type[BaseModel]] = ConvMeterMeasurementQuestion
    Answer: ClassVar[type[BaseModel]] = ConvMeterMeasurementAnswer
    reads_catalog: ClassVar[bool] = False

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def answer(self, question: ConvMeterMeasurementQuestion) -> ConvMeterMeasurementAnswer:
        """Measure until the time is over; raises InputError."""
        try:
            from epochcast.analyzer.backends.convmeter.measurement import collection
        except ImportError as error:
            raise InputError(f"this needs PyTorch, which cannot be loaded ({error}); {how_to_install('convnets')}") from error
        from epochcast.analyzer.backends.convmeter.measurement.device import check_device
        from epochcast.analyzer.backends.distributed.precision import precision_named

        check_device(question.device)
        networks, blocks = question.networks, [_network_and_block(text) for text in question.blocks]
        if not networks and not blocks:
            networks, blocks = list(collection.NETWORKS), list(collection.BLOCKS)
        self._settings.report("epochcast: counting networks")
        planned = collection.plan(
            networks,
            blocks,
            question.image_sizes or collection.IMAGE_SIZES,
            question.batches or collection.BATCHES[question.device],
            [precision_named(name) for name in question.precisions or ("fp32",)],
            question.device,
        )
        collected = collection.collect(
            planned,
            question.out,
            question.device,
            question.budget,
            lambda done, total: self._settings.report(f"epochcast: {done}/{total} points"),
        )
        return ConvMeterMeasurementAnswer(
            **vars(collected), too_long=planned.too_long, unsupported=dict(planned.unsupported), out=question.out
        )


def _network_and_block(text: str) -> tuple[str, str]:
    network, slash, block = text.rpartition("/")
    if not (network and slash and block):
        raise InputError(f"{text!r} names no block; give NETWORK/BLOCK, such as resnet50/layer2.1")
    return network, block
