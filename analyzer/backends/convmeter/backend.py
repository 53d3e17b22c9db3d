"""The backend ``convmeter``: steps of a convolutional network on measured devices, from the network alone."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from ...plain_json import plain
from ...plugins import Settings
from ...plugins.fitted_models import folder_named, folders
from ...plugins.question import NetworkBody, network_of
from ...plugins.types import GpuName, Name
from . import SHIPPED
from .http_answer import ConvMeterAnswer

if TYPE_CHECKING:
    from .predictor import Predictor

Count = Annotated[int, Field(ge=1, le=2**24)]

_EXAMPLES: list[Any] = [
    {"network": "resnet50", "batches": [32, 64, 128]},
    {"network": "torchvision:mobilenet_v2", "image_size": 128, "dataset_size": 1281167, "epochs": 90},
]


class ConvMeterQuestion(NetworkBody):
    """A network, and the steps that are asked for: of the whole by batch and number of devices, or of its blocks.

    The network is named (``network``) or sent (``onnx``).
    """

    model_config = ConfigDict(json_schema_extra={"examples": _EXAMPLES})

    model: Annotated[
        Name | None,
        Field(description="A fitted model by its name in the service's configuration; null: the only one, else the shipped."),
    ] = None
    device: Annotated[Name | None, Field(description="A device of the model; null: its only one.")] = None
    precision: Annotated[Name | None, Field(description="A precision of the model; null: its only one on the device.")] = None
    image_size: Annotated[int, Field(ge=1, le=4096, description="Side of the square image, pixels.")] = 224
    batches: list[Count] = Field(
        default_factory=list, max_length=64, description="Images per device, of several steps; none: 32."
    )
    global_batch: Annotated[Count | None, Field(description="Images per step of all devices, instead of batches.")] = None
    devices: list[Annotated[int, Field(ge=1, le=2**16)]] = Field(
        default_factory=list, max_length=64, description="How many in all nodes, of several steps; none: 1."
    )
    devices_per_node: Annotated[int | None, Field(ge=1, le=2**16, description="Null: all in one node.")] = None
    blocks: list[Name] = Field(
        default_factory=list, max_length=64, description="Blocks that are asked for alone, as layer2.0 or Bottleneck4."
    )
    all_blocks: Annotated[bool, Field(description="All blocks that the network is a sequence of.")] = False
    dataset_size: Annotated[int | None, Field(ge=1, le=10**12, description="Images of an epoch: adds its time and cost.")] = (
        None
    )
    epochs: Annotated[int | None, Field(ge=1, le=10**6, description="Adds time and cost of so many.")] = None
    gpu: Annotated[GpuName | None, Field(description="The device's GPU, for memory and cost; null: as its name says.")] = None


class ConvMeter:
    """Predicts by sums over layers, fitted to measured devices; see ``docs/convmeter.md``."""

    name: ClassVar[str] = "convmeter"
    summary: ClassVar[str] = (
        "Time of inference and training steps of a convolutional network on measured GPUs or CPUs, by batch and their number, "
        "where more of either stops paying, and the epoch's time and cost. Needs no run of the network."
    )
    Question: ClassVar[type[ConvMeterQuestion]] = ConvMeterQuestion
    Answer: ClassVar[type[ConvMeterAnswer]] = ConvMeterAnswer

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folders = folders(self.name, settings.own) or {"shipped": SHIPPED}

    def answer(self, question: ConvMeterQuestion) -> ConvMeterAnswer:
        """Answer as ``epochcast predict-model convmeter --json`` does; raises InputError."""
        from ....regressor import load_catalog
        from ...instances import load_instances
        from .question import Question, answer_json

        predictor = _predictor(folder_named(self._folders, question.model))
        catalog = load_catalog(self._settings.gpus)
        instances = [] if question.dataset_size is None else load_instances(self._settings.prices, catalog)[0]
        given = question.model_dump(exclude={"network", "onnx", "model"})
        with network_of(question) as network:
            told = answer_json(Question(network, **given), predictor, catalog, instances)
        return ConvMeterAnswer.model_validate(plain(told))


@cache
def _predictor(folder: Path) -> Predictor:
    from .predictor import Predictor

    return Predictor.load(folder)
