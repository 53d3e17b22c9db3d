"""This machine's CPU in the place of a GPU: one process of the paper's method, with operators that are run here."""

from __future__ import annotations

import math
import os

import torch

from epochcast.analyzer.backends.distributed.answer import DistributedAnswer
from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.communication import Link
from epochcast.analyzer.backends.distributed.operator_time.profile import copy_bandwidth, cpu_name
from epochcast.regressor import Gpu

NO_LINK = Link(name="this machine", kind="loopback", bandwidth=1.0, latency=0.0)
"""Over which one process sends nothing."""

AS_MEASURED = Coefficients(bandwidth=1.0, optimizer=1.0)
"""The bandwidth of :func:`this_machine` is measured, so that no share of it is lost."""


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


def of_this_machine(answer: DistributedAnswer) -> DistributedAnswer:
    """The answer in words of one process on a CPU, without a share of its peak, and with the threads that measured."""
    threads = f"{torch.get_num_threads()} (OMP_NUM_THREADS)"
    with_threads = f"torch {torch.__version__} trains with as many threads as its operators were measured with: {threads}"
    changes = {"mfu": None, "verdict": answer.verdict.replace("each GPU", "this machine")}
    return answer.model_copy(update=changes | {"assumptions": [*answer.assumptions, with_threads]})
