"""What the optimizer keeps for the weights of a rank, and what it moves to update them.

Adam (AdamW too) has two moments, SGD its momentum. Weights of 16 bits have an FP32 master copy next to them, as Megatron-LM and
DeepSpeed keep it, and FP32 moments. From ZeRO stage 1 on a data rank has its share of all of it (Rajbhandari et al. 2020,
section 5.1).
"""

from __future__ import annotations

from collections.abc import Iterable

from epochcast.analyzer.backends.distributed.models.graph import DTYPE_BYTES, Weight
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.plan.precision import precision_named


def kept_bytes(weights: Iterable[Weight], job: TrainingConfiguration) -> float:
    """Bytes of moments and master copies.

    Per parameter with Adam, weight and gradient included: 16 bytes in FP32, under autocast, and in 16 bit with master weights
    (K = 12 of Rajbhandari et al. 2020, section 3.1; Megatron-LM, which adds gradients up in FP32, has 18), 8 in 16 bit without.
    """
    numbers = ((weight.tensor.elements, *_state(weight, job)) for weight in weights)
    return sum(elements * state * (_moments(job) + master) for elements, state, master in numbers) / _sharers(job)


def moved_bytes(weights: Iterable[Weight], job: TrainingConfiguration) -> float:
    """Bytes read and written in one update: every state both ways, the gradient read, a weight of 16 bits written from its
    master; loss scaling reads and writes the gradients once more.
    """
    unscaled = 2 if precision_named(job.precision).loss_scaling else 0
    total = 0.0
    for weight in weights:
        state, master = _state(weight, job)
        size = DTYPE_BYTES[weight.tensor.dtype]
        total += weight.tensor.elements * (2 * state * (1 + _moments(job)) + size * (1 + unscaled + master))
    return total / _sharers(job)


def _state(weight: Weight, job: TrainingConfiguration) -> tuple[int, bool]:
    """Bytes of one number of a weight's states, and whether a master copy is among them."""
    size = DTYPE_BYTES[weight.tensor.dtype]
    master = job.keeps_master and size < 4
    return 4 if master else size, master


def _moments(job: TrainingConfiguration) -> int:
    return 2 if job.optimizer == "adam" else 1


def _sharers(job: TrainingConfiguration) -> int:
    return job.shards if job.zero else 1
