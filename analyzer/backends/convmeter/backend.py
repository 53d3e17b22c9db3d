"""The backend ``convmeter``: steps of a convolutional network on any GPU, from the network alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.convmeter import SHIPPED, scaling
from epochcast.analyzer.backends.convmeter.answer import (
    RATE_OF,
    ConvMeterAnswer,
    EpochCost,
    Estimate,
    Step,
)
from epochcast.analyzer.backends.convmeter.metrics import CHANNELS_LAST, PHASES, metrics_of, name_of_network
from epochcast.analyzer.backends.convmeter.predictor import Array, Cell, ConvNetPredictor, notes_on
from epochcast.analyzer.backends.convmeter.question import ConvMeterQuestion
from epochcast.analyzer.backends.convmeter.scaling import training_memory
from epochcast.analyzer.backends.distributed.communication.cluster import Cluster, cluster_for
from epochcast.analyzer.backends.rent import cheapest_rent, price_notes
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices import load_instances
from epochcast.analyzer.plugins import Plugin, Settings
from epochcast.analyzer.plugins.question import model_folders
from epochcast.analyzer.words import bare
from epochcast.regressor import Gpu, load_catalog
from epochcast.regressor import InputError as UnknownGpu
from epochcast.regressor.job_types import job_type_of
from epochcast.regressor.profile import LONGEST_NAME

if TYPE_CHECKING:
    from epochcast.regressor import LatencyPredictor, Prediction

USUAL_BATCH = 256
"""Images per GPU and step in public training recipes of ImageNet networks (torchvision 32 to 128, timm 128 to 256, NVIDIA 256);
halved until the memory may hold it."""

USUAL = {True: f"amp-fp16{CHANNELS_LAST}", False: "fp32"}
"""Precision where a GPU has tensor cores, and where it has none."""

_METRICS = ("flops", "conv_inputs", "conv_outputs", "weights", "layers")


class ConvMeter(Plugin):
    """Predicts by sums over layers, fitted to measured devices; see ``docs/convmeter.md``."""

    name = "convmeter"
    summary = (
        "Inference and training step time of a convolutional network on any GPU or measured CPUs, by batch and number of "
        "devices, where more of either stops paying off, and the epoch's time and cost. Needs no run."
    )
    manual = """\
    Predict inference and training of a convolutional network before it runs, and how it scales.

    Several --batch show where larger batches stop adding throughput. Several --devices show where more devices stop paying off:
    with the same images on each (weak scaling), or with --global-batch shared by all (strong scaling). A GPU that was not
    measured is predicted from the measured ones; the answer says so.

    \b
    Example: epochcast predict-model convmeter --network resnet50 \\
                 --device "A100 SXM4 80GB"
             epochcast predict-model convmeter --network resnet50 --model my-gpu \\
                 --batch 32 --batch 64 --batch 128
             epochcast predict-model convmeter --network resnet50 --device H100 \\
                 --devices 1 --devices 8 --devices 16 --dataset-size 1281167 \\
                 --plot scaling.png
    """
    Question: ClassVar[type[ConvMeterQuestion]] = ConvMeterQuestion
    Answer: ClassVar[type[ConvMeterAnswer]] = ConvMeterAnswer
    configurable = False

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.models = model_folders(self.name, settings.own) or {"shipped": SHIPPED}

    def answer(self, question: ConvMeterQuestion) -> ConvMeterAnswer:
        """Answer from fits to measured devices.

        Raises:
            InputError: the network is unknown or cannot be counted, or nothing answers for the device.
        """
        return _answer(question, _predictor(question.model or SHIPPED), _Ratios(self._settings))


@cache
def _predictor(folder: Path) -> ConvNetPredictor:
    return ConvNetPredictor.load(folder)


@cache
def _latency_predictor(folder: Path | None, gpus: Path | None) -> LatencyPredictor:
    from epochcast.regressor import LatencyPredictor

    return LatencyPredictor.load(folder, load_catalog(gpus))


class _Ratios:
    """Times on GPUs that were not measured, from those on one that was."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.catalog = settings, load_catalog(settings.gpus)

    def gpu(self, device: str) -> Gpu | None:
        """The GPU of the device's name; None where the catalogue has none."""
        try:
            return self.catalog.usual(device) or self.catalog.resolve(device)
        except UnknownGpu:
            return None

    def predict(self, cell: Cell, gpu: Gpu, network: str, **of_a_step: Any) -> Prediction:
        """A network on ``gpu`` from what is known of it on the cell's."""
        from epochcast.regressor import Profile

        profile = Profile(
            gpu=cell.device,
            **{"epoch_s": None, "unit": None, "epochs": 0} | of_a_step,
            metrics={},
            feature_set="none",
            first_epoch_excluded=False,
            precision="mixed" if "16" in cell.precision else "tf32",
            group=network[:LONGEST_NAME],
            type=job_type_of(network) or "cnn",
        )
        return _latency_predictor(self.settings.model, self.settings.gpus).predict(profile, [gpu.name])[0]

    def nearest(self, cells: Sequence[Cell], gpu: Gpu, network: str) -> Cell:
        """The cell of the device about as fast."""
        return min(cells, key=lambda cell: abs(math.log(self.predict(cell, gpu, network).ratio)))

    def move(
        self, phases: Mapping[str, Array], cell: Cell, gpu: Gpu, network: str, batches: Sequence[int]
    ) -> tuple[dict[str, Array], Prediction]:
        """Seconds on ``gpu`` from those on the cell's, shape (3, n) by phase, and the prediction of the last point's longest.

        The widths of both intervals add up (as squares of their logs).
        """
        moved: dict[str, Array] = {}
        last: list[Prediction] = []
        for phase, seconds in phases.items():
            own = []
            for (middle, low, high), batch in zip(seconds.T.tolist(), batches, strict=True):
                ends = {"epoch_s_low": low, "epoch_s_high": high} if low < high else {}  # not where they are NaN
                step = {"epoch_s": middle, "unit": "step", "epochs": 1, "batch": batch, "inference": phase == "inference"}
                own.append(self.predict(cell, gpu, network, **step, **ends))
            moved[phase] = np.array([(each.seconds, each.low, each.high) for each in own], dtype=np.float64).T
            last.append(own[-1])
        return moved, max(last, key=lambda each: each.seconds or 0.0)


def _answer(question: ConvMeterQuestion, predictor: ConvNetPredictor, ratios: _Ratios) -> ConvMeterAnswer:
    device, cell, assumed = _chosen(question, predictor, ratios)
    gpu, devices = ratios.gpu(device), sorted(set(question.devices or (1,)))
    network, metrics = name_of_network(question.network), metrics_of(question.network, question.image_size)
    batches = sorted(set(question.batches))
    if not batches and question.global_batch is None:
        batches = [_usual_batch(cell, metrics, gpu)]
        assumed.append(f"assumed: batch {batches[0]}, the largest usual one that was measured and the memory may hold")
    groups = [[(batch, count) for count in devices] for batch in batches]
    if question.global_batch is not None:
        groups = [[(question.global_batch // count, count) for count in devices]]
    series = [one for group in groups for one in group]
    points = pd.DataFrame([metrics] * len(series)).assign(
        image_size=question.image_size, batch=[batch for batch, _ in series], devices=[count for _, count in series]
    )
    # The paper's recipe also has several devices.
    phases = predictor.predict(cell, points if question.recipe == "paper" else points.assign(devices=1))
    notes = notes_on(cell, points)
    if gpu is not None and ratios.gpu(cell.device) != gpu:
        phases, ratio = ratios.move(phases, cell, gpu, network, points["batch"].tolist())
        assumed.append(
            f"assumed: {gpu.name} was not measured at {cell.precision}; times on {cell.device} x {ratio.ratio:.2f} "
            f"({ratio.ratio_low:.2f} to {ratio.ratio_high:.2f}), by the regressor"
        )
        notes.append(f"{gpu.name}: {ratio.why}")
    if len(series) > 1 and not set(RATE_OF) & set(phases):
        raise InputError(
            f"neither training steps nor inference were measured on {cell.device} at {cell.precision}, so throughput cannot "
            "be predicted; give one batch and one number of devices"
        )
    instances, _ = ([], []) if question.dataset_size is None else load_instances(ratios.settings.prices, ratios.catalog)
    steps, rents = list[Step](), []
    for place, (batch, count) in enumerate(series):
        own, nodes = {phase: seconds[:, place] for phase, seconds in phases.items()}, 1
        if count > 1:
            own, nodes, links = _several(own, count, question, metrics["weights"], cell.precision, gpu, device)
            assumed += [f"assumed: {each}" for each in links]
        rates = {name: batch * count / own[phase][[0, 2, 1]] for phase, name in RATE_OF.items() if phase in own}
        rent = cheapest_rent(instances, gpu.name, count, min(count, question.devices_per_node or count)) if gpu else None
        rents.append(rent)
        epoch = question.dataset_size / float(rates["training"][0]) if question.dataset_size and "training" in rates else None
        step = Step(
            batch=batch,
            devices=count,
            nodes=nodes,
            phases={phase: _estimate(own[phase]) for phase in PHASES if phase in own},
            images_per_second={name: _estimate(rate) for name, rate in rates.items()},
            memory=training_memory(metrics, batch, cell.precision, gpu.memory if gpu else None) if "step" in own else None,
            epoch_seconds=epoch,
            cost=EpochCost(**rent.rented, usd_per_epoch=rent.usd(epoch)) if rent and epoch else None,
        )
        if len(devices) > 1:
            fewest = steps[-(place % len(devices))] if place % len(devices) else step
            gain = step.rate.value / fewest.rate.value
            step = step.model_copy(update={"speed_up": gain, "efficiency": gain * fewest.devices / count})
        steps.append(step)
    turning_points, large_enough = {}, {}
    if len(series) > 1:
        throughput = np.reshape([step.rate.value for step in steps], (len(groups), len(devices)))
        if len(devices) > 1:
            turning_points = {
                question.global_batch or group[0][0]: scaling.turning_point(np.array(devices), own)
                for group, own in zip(groups, throughput, strict=True)
            }
        if len(groups) > 1:
            large_enough = {
                count: scaling.large_enough(np.array(batches), own) for count, own in zip(devices, throughput.T, strict=True)
            }
    return ConvMeterAnswer(
        network=network,
        image_size=question.image_size,
        device=device,
        gpu=gpu.name if gpu else None,
        precision=cell.precision,
        recipe=question.recipe,
        assumed=list(dict.fromkeys(assumed)),
        fitted={phase: fit.by_kind(metrics["attention_flops"] > 0) for phase, fit in cell.fits.items()},
        metrics={name: metrics[name] for name in _METRICS},
        predictions=steps,
        global_batch=question.global_batch,
        turning_points=turning_points,
        large_enough=large_enough,
        notes=[*notes, *price_notes(rents)],
    )


def _estimate(figures: Array) -> Estimate:
    """Of a figure and the ends of its interval, shape (3,)."""
    value, low, high = figures.tolist()
    return Estimate(value=value, low=low, high=high)


def _chosen(question: ConvMeterQuestion, predictor: ConvNetPredictor, ratios: _Ratios) -> tuple[str, Cell, list[str]]:
    """The device's name, what answers for it and what was assumed: its own fit, else that of the GPU about as fast.

    A GPU may have any name that the catalogue takes; capitals, blanks and hyphens do not matter.
    """

    def plain(device: str) -> str:
        gpu = ratios.gpu(device)
        return bare(device if gpu is None else gpu.name)

    there = [cell for cell in predictor.cells if cell.recipe == question.recipe]
    of_gpus = [cell for cell in there if ratios.gpu(cell.device)] if question.recipe == "default" else []
    listed = "; ".join(f"{cell.device} at {cell.precision}" for cell in there)
    listed += " (from which all other GPUs of the catalogue are predicted)" if of_gpus else ""
    several = InputError(f"the model has several devices or precisions; choose a device and a precision: {listed}")
    devices = dict.fromkeys(
        cell.device for cell in there if not question.precision or bare(cell.precision) == bare(question.precision)
    )
    if question.device is None and len(devices) > 1:
        raise several
    wanted = question.device or next(iter(devices), "")
    gpu = ratios.gpu(wanted)
    own = [cell for cell in there if plain(cell.device) == plain(wanted)]
    own = [cell for cell in own if cell.device == wanted] or own
    others = of_gpus if gpu else []
    device, assumed = own[0].device if own else gpu.name if gpu else wanted, []
    if gpu and ratios.catalog.usual(wanted):
        assumed = [f"assumed: {wanted} is taken for {gpu.name}, the form that clouds usually rent"]
    usual = USUAL[bool(gpu and gpu.fp16_tensor_flops)]
    for cells in (own, others):
        if fitting := [cell for cell in cells if bare(cell.precision) == bare(question.precision or usual)]:
            tensor = "mixed precision (AMP), channels last, as usual on GPUs with tensor cores"
            assumed += [f"assumed: {tensor}"] * (not question.precision and usual == USUAL[True])
            return device, ratios.nearest(fitting, gpu, question.network) if gpu and cells is others else fitting[0], assumed
    if not question.precision and len(own) > 1:
        raise several
    if not question.precision and (own or others):  # of a model of one's own, which lacks the usual precision
        return device, ratios.nearest(others, gpu, question.network) if gpu and not own else own[0], assumed
    named = " at ".join(name for name in (question.device, question.precision) if name is not None)
    by = " by the recipe paper" * (question.recipe == "paper")
    raise InputError(
        f"the model was not fitted for {named}{by}; it has {listed}; measure yours, fit a model with `epochcast fit convmeter` "
        "and name its folder"
    )


def _usual_batch(cell: Cell, metrics: Mapping[str, float], gpu: Gpu | None) -> int:
    """The largest that is usual and was measured, and that the memory is not sure to be too small for."""
    batch, memory = min(USUAL_BATCH, cell.largest_batch), None if gpu is None else gpu.memory
    while batch > 1 and (need := training_memory(metrics, batch, cell.precision, memory)) and need.fits is False:
        batch //= 2
    return batch


def _several(
    phases: dict[str, Array],
    devices: int,
    question: ConvMeterQuestion,
    weights: float,
    precision: str,
    gpu: Gpu | None,
    device: str,
) -> tuple[dict[str, Array], int, tuple[str, ...]]:
    """Phases on several devices, the nodes and what was assumed of them; inference and passes take as long as on one."""
    if question.recipe == "paper":
        return phases, math.ceil(devices / (question.devices_per_node or devices)), ()
    if gpu is None:
        raise InputError(
            f"steps on several {device} cannot be predicted: the GPU catalogue does not have it, so the links between them are "
            "not known; ask for one"
        )
    cluster: Cluster = cluster_for(gpu, devices, question.devices_per_node)
    nodes = devices // cluster.gpus_per_node
    if (step := phases.get("step")) is None:
        return phases, nodes, ()
    backward = phases["backward"][0] if "backward" in phases else scaling.BACKWARD_SHARE * step[0]
    gradient_bytes = weights * (2 if precision.startswith("fp16") else 4)
    whole, more = scaling.on_several(step, float(backward), gradient_bytes, cluster, devices)
    update = phases.get("update", np.zeros(3)) + more
    return {**phases, "update": update, "step": whole}, nodes, cluster.assumptions
