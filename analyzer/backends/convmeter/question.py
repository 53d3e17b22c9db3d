"""What ConvMeter is asked."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator

from epochcast.analyzer.backends.convmeter.predictor import Recipe
from epochcast.analyzer.plugins.question import Http, ModelFolder, Name, NetworkQuestion, Option

Count = Annotated[int, Field(ge=1, le=2**24)]
Devices = Annotated[int, Field(ge=1, le=2**16)]


class ConvMeterQuestion(NetworkQuestion):
    """A network, and the requested steps by batch and number of devices."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"network": "resnet50", "batches": [32, 64, 128]},
                {"network": "torchvision:mobilenet_v2", "image_size": 128, "dataset_size": 1281167},
            ]
        }
    )

    model: Annotated[ModelFolder, Field(description="Fitted model, written by `epochcast fit convmeter`.")] = None
    recipe: Annotated[
        Recipe,
        Http(),
        Field(description="default, or paper: ConvMeter's own Eq. 2 to 4, for devices that were measured."),
    ] = "default"
    device: Annotated[
        Name | None,
        Http(),
        Option(metavar="NAME", default="the model's only one"),
        Field(description="Device to predict for: any GPU of the catalogue, or another device of the model."),
    ] = None
    precision: Annotated[
        Name | None,
        Http(),
        Option(metavar="NAME", default="the usual one: AMP, channels last, where there are tensor cores"),
        Field(description="Precision, one of the model's; -nhwc at its end: channels last."),
    ] = None
    image_size: Annotated[
        int, Http(), Option(metavar="PIXELS"), Field(ge=1, le=4096, description="Side of the square images in pixels.")
    ] = 224
    batches: Annotated[
        list[Count],
        Http(),
        Option("--batch", "N", default="the largest usual one"),
        Field(default_factory=list, max_length=64, description="Images per device and step."),
    ]
    global_batch: Annotated[
        Count | None,
        Http(),
        Option(metavar="N"),
        Field(description="Images per step over all devices (strong scaling), instead of a batch per device."),
    ] = None
    devices: Annotated[
        list[Devices],
        Http(),
        Option(metavar="N", default="1"),
        Field(default_factory=list, max_length=64, description="Total number of devices over all nodes."),
    ]
    devices_per_node: Annotated[
        Devices | None,
        Http(),
        Option(metavar="N", default="8 at most"),
        Field(description="Number of devices in a node."),
    ] = None
    dataset_size: Annotated[
        int | None,
        Http(),
        Option(metavar="N"),
        Field(ge=1, le=10**12, description="Images in an epoch; adds its time and cost."),
    ] = None

    @model_validator(mode="after")
    def _of_one_kind_of_batch(self) -> Self:
        if self.batches and self.global_batch is not None:
            raise ValueError("a batch is per device and a global batch is over all devices; give only one")
        if uneven := [count for count in self.devices if self.global_batch and self.global_batch % count]:
            raise ValueError(f"a global batch of {self.global_batch} cannot be split equally over {uneven[0]} devices")
        return self
