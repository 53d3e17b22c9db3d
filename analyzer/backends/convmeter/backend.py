"""The backend ``convmeter``: steps of a convolutional network on measured devices, from the network alone."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import ClassVar

from epochcast.analyzer.backends.convmeter import SHIPPED
from epochcast.analyzer.backends.convmeter.answer import ConvMeterAnswer
from epochcast.analyzer.backends.convmeter.predictor import ConvNetPredictor
from epochcast.analyzer.backends.convmeter.question import ConvMeterQuestion, answer
from epochcast.analyzer.plugins import Plugin, Settings
from epochcast.analyzer.plugins.fitted_models import folders
from epochcast.regressor import load_catalog


class ConvMeter(Plugin):
    """Predicts by sums over layers, fitted to measured devices; see ``docs/convmeter.md``."""

    name = "convmeter"
    summary = (
        "Inference and training step time of a convolutional network on measured GPUs or CPUs, by batch and number of "
        "devices, where more of either stops paying off, and the epoch's time and cost. Needs no run."
    )
    manual = """\
    Predict inference and training of a convolutional network before it runs, and how it scales.

    Several --batch show where larger batches stop adding throughput. Several --devices show where more devices stop paying off:
    with the same images on each (weak scaling), or with --global-batch shared by all (strong scaling).

    \b
    Example: epochcast predict-model convmeter --network resnet50 \\
                 --device "RTX 3090"
             epochcast predict-model convmeter --network resnet50 --model my-gpu \\
                 --batch 32 --batch 64 --batch 128
             epochcast predict-model convmeter --network resnet50 --model my-gpu \\
                 --devices 1 --devices 2 --devices 4 --dataset-size 1281167 \\
                 --epochs 90 --plot scaling.png
             epochcast predict-model convmeter --network my_models:tiny \\
                 --model my-gpu --blocks
    """
    Question: ClassVar[type[ConvMeterQuestion]] = ConvMeterQuestion
    Answer: ClassVar[type[ConvMeterAnswer]] = ConvMeterAnswer
    configurable = False

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.models = folders(self.name, settings.own) or {"shipped": SHIPPED}

    def answer(self, question: ConvMeterQuestion) -> ConvMeterAnswer:
        """Answer from fits to measured devices; raises InputError."""
        catalog = load_catalog(self._settings.gpus)
        return answer(question, _predictor(question.model or SHIPPED), catalog, self._settings.prices)


@cache
def _predictor(folder: Path) -> ConvNetPredictor:
    return ConvNetPredictor.load(folder)
