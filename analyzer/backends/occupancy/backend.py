"""The backend ``occupancy``: what training a network takes of a GPU, from the network alone."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from epochcast.analyzer.backends.occupancy import SHIPPED
from epochcast.analyzer.backends.occupancy.answer import OccupancyAnswer
from epochcast.analyzer.backends.occupancy.question import OccupancyQuestion, answer
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins import Plugin, Settings
from epochcast.analyzer.plugins.question import model_folders
from epochcast.extras import how_to_install

if TYPE_CHECKING:
    from epochcast.analyzer.backends.occupancy.predictor import OccupancyPredictor


class Occupancy(Plugin):
    """Predicts by a model fitted on measured trainings, and models inference's launches; see ``docs/occupancy.md``."""

    name = "occupancy"
    summary = (
        "SM occupancy and peak memory of training a network at each batch, and the smallest batch that fills the GPU. "
        "Needs no run."
    )
    manual = """\
    Predict the SM occupancy, SM activity and peak memory of training a network, and whether it fits on the GPU.

    The shipped model was fitted to fp32 training runs of random networks that DCGM measured on an A100. Other operators (as
    of transformers), precisions and GPUs were not measured: for these, CUDA's occupancy calculation is applied to the kernels
    that PyTorch is expected to launch in a forward pass. Such figures are marked as modelled, and have a wide range.

    Your own factory returns a module that takes images, or (module, inputs); it may have a parameter image_size.

    \b
    Example: epochcast predict-model occupancy --network resnet50 --batch 64
             epochcast predict-model occupancy --network vgg16 --sweep-batches \\
                 --plot vgg16.png
             epochcast predict-model occupancy --network mine.onnx --gpu L4 \\
                 --precision fp16
    """
    Question: ClassVar[type[OccupancyQuestion]] = OccupancyQuestion
    Answer: ClassVar[type[OccupancyAnswer]] = OccupancyAnswer
    configurable = False

    def __init__(self, settings: Settings) -> None:
        if importlib.util.find_spec("torch") is None:
            raise InputError(f"reading networks needs torch, which is not installed here; {how_to_install('occupancy')}")
        super().__init__(settings)
        self.models = model_folders(self.name, settings.own) or {"shipped": SHIPPED}

    def answer(self, question: OccupancyQuestion) -> OccupancyAnswer:
        """Answer from measured trainings; raises InputError."""
        from epochcast.regressor import load_catalog

        return answer(question, _predictor(question.model or SHIPPED), load_catalog(self._settings.gpus))


@cache
def _predictor(folder: Path) -> OccupancyPredictor:
    from epochcast.analyzer.backends.occupancy.predictor import OccupancyPredictor

    return OccupancyPredictor.load(folder)
