"""The backend ``occupancy``: what training a network takes of a GPU, from the network alone."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from ...extras import how_to_install
from ..backends.occupancy import SHIPPED
from ..errors import InputError
from ..plain_json import plain
from . import Settings
from .checked_models import GpuName, Name
from .fitted_models import folder_named, folders
from .occupancy_answer import OccupancyAnswer
from .received_onnx import NetworkQuestion, network_of

if TYPE_CHECKING:
    from ..backends.occupancy.predictor import Predictor

_EXAMPLES: list[Any] = [
    {"network": "resnet50", "gpus": ["A100 SXM4 40GB", "T4"], "batches": [64]},
    {"network": "lstm", "gpus": ["L4"], "sequence": 128, "hidden": 512, "layers": 2, "precision": "fp16", "sweep": True},
]


class OccupancyQuestion(NetworkQuestion):
    """A network with its sizes, the GPUs that it would run on, and batches.

    The network is named (``network``: of Table II of the DNN-occu paper, torchvision or timm) or sent (``onnx``).
    """

    model_config = ConfigDict(json_schema_extra={"examples": _EXAMPLES})

    model: Annotated[
        Name | None,
        Field(description="A fitted model by its name in the service's configuration; null: the only one, else the shipped."),
    ] = None
    gpus: list[GpuName] = Field(default_factory=list, max_length=32, description="None: those that the model was fitted on.")
    batches: list[Annotated[int, Field(ge=1, le=2**16)]] = Field(
        default_factory=list, max_length=32, description="Samples of several steps; none: 32."
    )
    sweep: Annotated[bool, Field(description="All batches of powers of two that memory holds, and the best.")] = False
    precision: Literal["fp32", "fp16", "bf16"] = "fp32"
    channels: Annotated[int | None, Field(ge=1, le=256, description="Of the image; null: the network's usual.")] = None
    image_size: Annotated[int | None, Field(ge=1, le=4096, description="Side of the image, pixels.")] = None
    sequence: Annotated[int | None, Field(ge=1, le=2**16, description="Tokens, or steps of a recurrent network.")] = None
    hidden: Annotated[int | None, Field(ge=1, le=2**13, description="Width of a recurrent network.")] = None
    layers: Annotated[int | None, Field(ge=1, le=16, description="Of a recurrent network.")] = None


class Occupancy:
    """Predicts by a model fitted on measured trainings, and models inference's launches; see ``docs/occupancy.md``."""

    name: ClassVar[str] = "occupancy"
    summary: ClassVar[str] = (
        "SM occupancy and peak memory of training a network at each batch, and the smallest batch that fills the GPU. "
        "Needs no run."
    )
    Question: ClassVar[type[OccupancyQuestion]] = OccupancyQuestion
    Answer: ClassVar[type[OccupancyAnswer]] = OccupancyAnswer

    def __init__(self, settings: Settings) -> None:
        if importlib.util.find_spec("torch") is None and importlib.util.find_spec("onnx") is None:
            raise InputError(
                f"networks are read with torch or onnx, and neither is installed here; {how_to_install('occupancy')}"
            )
        self._settings = settings
        self._folders = folders(self.name, settings.own) or {"shipped": SHIPPED}

    def answer(self, question: OccupancyQuestion) -> OccupancyAnswer:
        """Answer as ``epochcast predict-model occupancy --json`` does; raises InputError."""
        from ...regressor import load_catalog
        from ..backends.occupancy.configuration import Configuration
        from ..backends.occupancy.question import Question, answer

        sizes = {name: getattr(question, name) or 0 for name in ("channels", "image_size", "sequence", "hidden", "layers")}
        with network_of(question) as network:
            answered = answer(
                Question(
                    Configuration(network, 1, precision=question.precision, **sizes),
                    question.gpus,
                    question.batches,
                    question.sweep,
                ),
                _predictor(folder_named(self._folders, question.model)),
                load_catalog(self._settings.gpus),
                # Graphs of other sizes than the usual would let questions fill the disk.
                cache=not any(sizes.values()),
            )
        if question.onnx is not None:
            answered["network"] = "network.onnx"
        return OccupancyAnswer.model_validate(plain(answered))


@cache
def _predictor(folder: Path) -> Predictor:
    from ..backends.occupancy.predictor import Predictor

    return Predictor.load(folder)
