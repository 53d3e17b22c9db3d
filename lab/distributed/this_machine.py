"""This machine's CPU in the place of a GPU: one process of the paper's method, with operators that are run here."""

from __future__ import annotations

import argparse
import json
import math
import os
from dataclasses import replace

import torch

from epochcast.analyzer.backends.distributed.communication.cluster import Link
from epochcast.analyzer.backends.distributed.fitted_model import Coefficients, DistributedModel
from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration, precision_named
from epochcast.analyzer.backends.distributed.predictor import IterationPredictor
from epochcast.regressor import Gpu
from lab.convmeter.device import cpu_name
from lab.distributed.profile import ProfiledTimes, copy_bandwidth
from lab.distributed.profile_cache import ProfileCache

NO_LINK = Link(name="this machine", bandwidth=1.0, latency=0.0)
"""Over which one process sends nothing."""

AS_MEASURED = Coefficients(gap=0.0, optimizer=1.0)
"""Operators and the bandwidth of :func:`this_machine` are measured as they run, so that nothing is lost beside."""


def this_machine() -> Gpu:
    """Its memory, the bandwidth of a copy measured here (bytes/s), and no peak: every operator is run."""
    return Gpu(
        name=cpu_name(),
        compute_capability=0.0,
        sm_count=1,
        cuda_cores=1,
        boost_clock=0.0,
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        memory_bandwidth=copy_bandwidth("cpu"),
        tdp=0.0,
        fp32_flops=math.inf,
        fp16_flops=math.inf,
        bf16_tensor_flops=math.inf,
    )


def predictor_here(model: str, recipe: str, times: ProfiledTimes) -> IterationPredictor:
    """Predicts jobs of a model on this machine from operators that are run here."""
    return IterationPredictor(
        ModelGraphs.of(model, "cpu", extraction="fx" if recipe == "paper" else "recording"),
        recipe,
        replace(DistributedModel.load(), coefficients=AS_MEASURED),
        lambda *_: times,
        intra=NO_LINK,
    )


def main(arguments: list[str] | None = None) -> None:
    """Print the seconds of an iteration on this machine's CPU, and of its parts, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="built-in name, style:key=value,… or module:factory")
    parser.add_argument("--micro-batch", type=int, default=1)
    parser.add_argument("--sequence-length", type=int, default=128)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--recipe", default="default", choices=("default", "paper"))
    asked = parser.parse_args(arguments)
    job = TrainingConfiguration(
        micro_batch=asked.micro_batch,
        global_batch=asked.micro_batch,
        sequence_length=asked.sequence_length,
        precision=asked.precision,
    )
    precision, gpu = precision_named(asked.precision), this_machine()
    times = ProfiledTimes("cpu", precision, ProfileCache())  # kept from run to run
    predictor = predictor_here(asked.model, asked.recipe, times)
    times.seconds(
        [operator for block in predictor.graphs.graph(job).parts for operator in block.operators]
    )  # all in the same rounds
    parts = predictor.iteration(gpu, job).parts
    if asked.recipe == "default" and precision.weights == "float32" and not precision.loss_scaling:
        # torch's optimizer steps the weights themselves, so that its step can be run here too
        blocks = [block for stage in predictor.prepared(gpu, job).stages for block in stage.blocks]
        weights = [weight for block in blocks for weight in block.weights]
        parts = parts.model_copy(update={"optimizer": times.optimizer_seconds(weights, job.optimizer)})
    answer = {"seconds": parts.seconds, "compute": parts.compute, "optimizer": parts.optimizer}
    print(json.dumps({**answer, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
