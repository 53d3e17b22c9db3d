"""Profiles that lost their beginning are not taken for whole ones."""

import itertools

import pytest

pytest.importorskip("torch")

from epochcast.analyzer.backends.occupancy.kernel_files import KernelFile
from epochcast.analyzer.backends.occupancy.launch.kernel_table import kernel_table
from epochcast.analyzer.backends.occupancy.measurement.profiled_step import MARKER, MARKERS, StepProfiler
from epochcast.analyzer.errors import InputError

STEP = ["gemm", "relu", "gemm"]


class Profiles:
    """Answers profiles of which the first kernels are lost, by as many as ``lost`` says."""

    def __init__(self, *lost):
        self.lost = iter(lost)
        self.waits = []

    def __call__(self, step, wait):
        step()
        self.waits.append(wait)
        names = [f"void {MARKER}_kernel"] * MARKERS + STEP
        kept = names[next(self.lost) :]
        if not kept:
            raise InputError("'the profile' holds no kernel")
        return KernelFile("", kernel_table(kernel=kept[::-1]))  # a trace has no order that holds


@pytest.mark.parametrize(
    ("lost", "waits"),
    [
        ([0], [0.0]),
        ([MARKERS - 16], [0.0]),
        ([MARKERS - 1], [0.0]),  # whole, but the next may not be
        ([MARKERS, 0], [0.0, 0.002]),
        ([MARKERS + 1, MARKERS + 3, MARKERS + 2, 5], [0.0, 0.002, 0.006, 0.014]),
    ],
)
def test_all_kernels_of_the_step_and_no_others(lost, waits):
    profiles, runs = Profiles(*lost), []
    file = StepProfiler(profiles).kernels(lambda: runs.append(1))
    assert sorted(file.table["kernel"]) == sorted(STEP)
    assert file.table.index.tolist() == [0, 1, 2]
    assert profiles.waits == pytest.approx(waits)
    assert len(runs) == len(waits)


def test_the_wait_is_kept_for_the_next_profile():
    profiles = Profiles(MARKERS - 1, MARKERS, 0, 0)
    profiler = StepProfiler(profiles)
    for _ in range(3):
        profiler.kernels(lambda: None)
    assert profiles.waits == pytest.approx([0.0, 0.002, 0.006, 0.006])


@pytest.mark.parametrize("lost", [MARKERS + 3, MARKERS + 1])
def test_where_every_profile_loses_its_beginning_it_is_said(lost):
    with pytest.raises(RuntimeError, match="lost the beginning of every profile"):
        StepProfiler(Profiles(*itertools.repeat(lost, 20))).kernels(lambda: None)
