"""Which job goes where, on GPUs filled by hand."""

from collections.abc import Sequence

import pytest
from made_jobs import job

from epochcast.analyzer.backends.occupancy.packing.jobs import PackedJob
from epochcast.analyzer.backends.occupancy.packing.policies import PackedGpu, Policy, nvml_util, occu, slot

GB = 1e9


def gpus(*filled: Sequence[PackedJob], memory: float = 10 * GB) -> list[PackedGpu]:
    return [PackedGpu(memory, list(jobs)) for jobs in filled]


HALF, THIRD, FULL = job("half", occupancy=0.5), job("third", occupancy=0.3), job("full", occupancy=0.95)


@pytest.mark.parametrize(
    ("policy", "queue", "state", "placement"),
    [
        (slot, [HALF], gpus([THIRD], []), (0, 1)),
        (slot, [HALF], gpus([THIRD], [THIRD]), None),
        (slot, [], gpus([]), None),
        (occu, [THIRD], gpus([THIRD], [HALF], []), (0, 1)),  # the fullest that takes it
        (occu, [HALF], gpus([HALF], [THIRD]), (0, 0)),  # 100 % is not too much
        (occu, [HALF], gpus([THIRD, THIRD]), None),
        (occu, [FULL, THIRD], gpus([HALF]), (1, 0)),  # one that fits nowhere lets others pass
        (occu, [FULL], gpus([HALF], []), (0, 1)),
        (occu, [job(memory=9.5 * GB, occupancy=0.1)], gpus([HALF]), None),  # memory
        (occu, [job(memory=9.5 * GB, predicted_memory=GB, occupancy=0.1)], gpus([HALF]), (0, 0)),  # as it is told
        (occu, [THIRD], gpus([job(memory=9.5 * GB, predicted_memory=GB)]), None),  # of running jobs as it is
        (occu, [job(occupancy=0.9, predicted_occupancy=0.4)], gpus([HALF]), (0, 0)),
        (occu, [HALF], gpus([job(occupancy=0.2, predicted_occupancy=0.6)]), None),
        (nvml_util, [job(nvml_utilisation=0.4)], gpus([job(nvml_utilisation=0.7)], [job(nvml_utilisation=0.5)]), (0, 1)),
        (nvml_util, [job(nvml_utilisation=0.9, occupancy=0.1)], gpus([job(nvml_utilisation=0.9, occupancy=0.1)]), None),
        (occu, [job(predicted_memory=99 * GB)], gpus([]), (0, 0)),  # an empty GPU takes any job
    ],
)
def test_placements_by_hand(
    policy: Policy, queue: list[PackedJob], state: list[PackedGpu], placement: tuple[int, int] | None
) -> None:
    assert policy(queue, state) == placement
