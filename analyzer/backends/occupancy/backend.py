"""The backend ``occupancy``: what training a network takes of a GPU, from the network alone."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import ClassVar

from epochcast.analyzer.backends.occupancy import SHIPPED
from epochcast.analyzer.backends.occupancy.answer import WITHIN, Filled, OccupancyAnswer
from epochcast.analyzer.backends.occupancy.networks import SIZES, NetworkConfiguration, Sample, complete, graph_of
from epochcast.analyzer.backends.occupancy.predictor import OccupancyPredictor
from epochcast.analyzer.backends.occupancy.question import OccupancyQuestion
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins import Plugin, Settings
from epochcast.analyzer.plugins.question import model_folders
from epochcast.extras import how_to_install
from epochcast.regressor import Gpu, load_catalog

USUAL_BATCH = 32

LARGEST = 4096
"""Batches beyond it are not tried: there the GPU's memory does not bound them."""


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
        """Answer from measured trainings, and where there are none from launches and shapes.

        Raises:
            InputError: the network is unknown or cannot be read, has no kernels, or does not fit.
        """
        predictor, catalog = _predictor(question.model or SHIPPED), load_catalog(self._settings.gpus)
        gpus = list({gpu.name: gpu for gpu in map(catalog.resolve, question.gpus or predictor.fitted.gpus)}.values())
        sizes = {"image_size": question.image_size or 0, "sequence": question.sequence or 0}
        network = complete(NetworkConfiguration(question.network, 1, precision=question.precision, **sizes))
        graph = graph_of(network).in_training()
        rows: list[tuple[Sample, Filled]] = []
        smallest = {}
        for gpu in gpus:

            def fill(batch: int, gpu: Gpu = gpu) -> tuple[Sample, Filled]:
                sample = Sample(replace(network, batch=batch), graph.at_batch(batch), gpu)
                return sample, predictor.predict(sample, catalog)

            if question.sweep:
                powers = (2**exponent for exponent in range(LARGEST.bit_length()))
                own = list(takewhile(lambda filled: filled[1].peak_memory.value <= filled[0].gpu.memory, map(fill, powers)))
                if not own:
                    raise InputError(
                        f"{network.network} does not fit {gpu.name} even at batch 1: it takes about "
                        f"{fill(1)[1].peak_memory.value / 2**30:.1f} GiB of {gpu.memory / 2**30:.1f} GiB; "
                        "take a GPU with more memory"
                    )
                highest = max(row.sm_occupancy.value for _, row in own)
                smallest[gpu.name] = next(row.batch for _, row in own if row.sm_occupancy.value >= highest * (1 - WITHIN))
            else:
                own = [fill(batch) for batch in sorted(set(question.batches or [USUAL_BATCH]))]
            rows += own
        return OccupancyAnswer(
            network=Path(network.network).name if network.network.endswith(".onnx") else network.network,
            sizes={name: size for name in SIZES if (size := getattr(network, name))},
            precision=network.precision,
            nodes=len(graph),
            unknown_operators=dict(graph.unknown),
            model=predictor.fitted,
            predictions=[row for _, row in rows],
            smallest=smallest,
            notes=predictor.notes([sample for sample, _ in rows], catalog),
        )


@cache
def _predictor(folder: Path) -> OccupancyPredictor:
    return OccupancyPredictor.load(folder)
