"""The backend ``occupancy``: what training a network takes of a GPU, from the network alone."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ....extras import how_to_install
from ...errors import InputError
from ...plugins import Settings
from ...plugins.fitted_models import folders
from . import SHIPPED
from .answer import OccupancyAnswer
from .question import OccupancyQuestion, answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .predictor import Predictor


class Occupancy:
    """Predicts by a model fitted on measured trainings, and models inference's launches; see ``docs/occupancy.md``."""

    name: ClassVar[str] = "occupancy"
    summary: ClassVar[str] = (
        "SM occupancy and peak memory of training a network at each batch, and the smallest batch that fills the GPU. "
        "Needs no run."
    )
    manual: ClassVar[str] = """\
    Predict what training a network takes of a GPU: SM occupancy, SM activity and peak memory, and whether it fits.

    The shipped model is fitted on trainings of random networks in fp32 that DCGM measured on an A100. What it cannot know is
    not answered: other operators or precisions, and SMs of other GPUs. There, CUDA's occupancy calculation is applied to the
    kernels that PyTorch is expected to launch in inference; nothing of that was measured.

    Your own factory returns a module that is called with images, or (module, inputs). Its parameters batch, channels,
    image_size, sequence, hidden and layers get the values of these options.

    \b
    Example: epochcast predict-model occupancy --network resnet50 --batch 64
             epochcast predict-model occupancy --network vgg16 --sweep-batches \\
                 --plot vgg16.png
             epochcast predict-model occupancy --network encoder.onnx --gpu L4 \\
                 --precision fp16
    """
    Question: ClassVar[type[OccupancyQuestion]] = OccupancyQuestion
    Answer: ClassVar[type[OccupancyAnswer]] = OccupancyAnswer

    def __init__(self, settings: Settings) -> None:
        if importlib.util.find_spec("torch") is None and importlib.util.find_spec("onnx") is None:
            raise InputError(
                f"networks are read with torch or onnx, and neither is installed here; {how_to_install('occupancy')}"
            )
        self._gpus = settings.gpus
        self.models = folders(self.name, settings.own) or {"shipped": SHIPPED}

    def answer(self, question: OccupancyQuestion) -> OccupancyAnswer:
        """Answer from measured trainings; raises InputError."""
        from ....regressor import load_catalog

        # Graphs of other sizes than the usual would let questions fill the disk.
        return answer(question, _predictor(question.model or SHIPPED), load_catalog(self._gpus), cache=not question.sizes)

    @staticmethod
    def figure(answered: OccupancyAnswer) -> Figure:
        """Occupancy by batch, a panel per GPU; raises InputError for a single batch."""
        from ...figures.occupancy import BatchCurve, occupancy_by_batch_figure

        if len({row.batch for row in answered.predictions}) < 2:
            raise InputError("--plot draws occupancy by batch; give --sweep-batches or several --batch")
        best = {sweep.gpu: sweep.smallest for sweep in answered.batches}
        curves = []
        for gpu in dict.fromkeys(row.gpu for row in answered.predictions):
            rows = [row for row in answered.predictions if row.gpu == gpu]
            intervals = [row.training.sm_occupancy for row in rows]
            activities = [row.training.sm_active for row in rows]
            curves.append(
                BatchCurve(
                    f"{answered.network} on {gpu}, {answered.precision}",
                    np.array([row.batch for row in rows], dtype=float),
                    np.array([row.occupancy for row in rows]),
                    np.array([interval and interval.low for interval in intervals], dtype=float),
                    np.array([interval and interval.high for interval in intervals], dtype=float),
                    np.array(
                        [
                            activity.value if activity else row.modelled.nvml_utilisation
                            for activity, row in zip(activities, rows, strict=True)
                        ]
                    ),
                    intervals[0] is None,
                    best.get(gpu),
                )
            )
        return occupancy_by_batch_figure(curves)


@cache
def _predictor(folder: Path) -> Predictor:
    from .predictor import Predictor

    return Predictor.load(folder)
