"""Collecting: what fails is counted, what came before is kept, and the same command continues."""

import pytest

pytest.importorskip("torch")

from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.kernel_files import read_any as read_kernels
from epochcast.analyzer.backends.occupancy.launch.kernel_table import Aggregate, kernel_table
from epochcast.analyzer.backends.occupancy.measurement.collection import collect
from epochcast.analyzer.backends.occupancy.measurement.points_file import Measured, label_row
from epochcast.analyzer.backends.occupancy.points import read_points
from epochcast.analyzer.errors import InputError

PLAN = [Configuration("resnet18", batch, 3, 224) for batch in (16, 20, 24, 28)]


class Bench:
    """Gives rows; raises what ``faults`` says, by batch, after the first row."""

    gpu = "H200 SXM"
    problems = ("NVML: not there",)

    def __init__(self, labels=("launch_config",), **faults):
        self.labels, self.faults, self.asked = labels, faults, []
        self.place = {"device": "NVIDIA H200", "software": "torch"}
        self.recovers = True

    def measure(self, configuration, labels):
        self.asked.append((configuration.batch, *labels))
        fault = self.faults.get(f"b{configuration.batch}")
        for number, one in enumerate(labels):
            if fault is not None and number == len(labels) - 1:
                raise fault
            launches = kernel_table(kernel=["gemm"], gpu="NVIDIA H200", duration=1e-6)
            yield Measured(label_row(configuration, self.gpu, one, Aggregate(0.25, 0.5, 0.75), 1), launches)

    def recover(self):
        if not self.recovers:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")


def run(path, bench, budget=1e9):
    seen = []
    collected = collect(PLAN, path, bench, budget, lambda *progress: seen.append(progress))
    return collected, seen


def test_rows_are_measured_once(tmp_path):
    path = tmp_path / "p.csv"
    first, seen = run(path, Bench(), budget=0.0)
    assert (first.rows, first.new, first.left, first.failed) == (1, 1, 3, 0)
    assert seen == [(1, 4)]
    assert first.problems == ("NVML: not there",)
    bench = Bench()
    second, seen = run(path, bench)
    assert (second.rows, second.new, second.left) == (4, 3, 0)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert bench.asked == [(batch, "launch_config") for batch in (20, 24, 28)]
    points = read_points(path)
    assert points["batch"].tolist() == [16, 20, 24, 28]
    assert points["family"].unique().tolist() == ["cnn"]
    assert len(read_kernels(tmp_path / "p.kernels.csv.gz").table) == 4
    third, _ = run(path, Bench())
    assert (third.rows, third.new) == (4, 0)


def test_failures_are_counted_and_tried_again(tmp_path):
    path = tmp_path / "p.csv"
    faults = {"b16": MemoryError(), "b24": RuntimeError("the profiler lost it. More."), "b28": KeyError("mine")}
    collected, _ = run(path, Bench(**faults))
    assert (collected.rows, collected.failed, collected.left) == (1, 3, 0)
    assert collected.reasons == {"out of memory": 1, "the profiler lost it": 1, "KeyError: 'mine'": 1}
    again, _ = run(path, Bench())
    assert (again.rows, again.new) == (4, 3)


def test_labels_that_are_lacking_are_asked_for(tmp_path):
    path = tmp_path / "p.csv"
    run(path, Bench())
    bench = Bench(("launch_config", "ncu"), b20=RuntimeError("ncu took longer"))
    collected, _ = run(path, bench)
    assert bench.asked == [(one.batch, "ncu") for one in PLAN]
    assert (collected.rows, collected.reasons) == (7, {"ncu took longer": 1})


def test_what_came_before_a_failure_is_kept(tmp_path):
    collected, _ = run(tmp_path / "p.csv", Bench(("launch_config", "ncu"), b20=RuntimeError("ncu took longer")))
    assert (collected.rows, collected.failed) == (7, 1)
    assert read_points(tmp_path / "p.csv").query("batch == 20")["labels"].tolist() == ["launch_config"]


def test_a_gpu_that_no_longer_answers_ends_it(tmp_path):
    bench = Bench(("launch_config", "ncu"), b20=RuntimeError("CUDA error: misaligned address"))
    bench.recovers = False
    with pytest.raises(InputError, match=r"no longer answers after resnet18 at batch 20 \(CUDA error\); start"):
        run(tmp_path / "p.csv", bench)
    assert len(read_points(tmp_path / "p.csv")) == 3


def test_a_disk_that_is_full_is_no_failure_of_a_network(tmp_path, monkeypatch):
    bench = Bench()
    measure = bench.measure

    def fills_the_disk(configuration, labels):
        yield from measure(configuration, labels)
        (tmp_path / "p.csv").unlink()
        (tmp_path / "p.csv").mkdir()

    monkeypatch.setattr(bench, "measure", fills_the_disk)
    with pytest.raises(InputError, match="cannot write"):
        run(tmp_path / "p.csv", bench)


@pytest.mark.parametrize("ratios", [(float("nan"), 0.5, 0.5), (0.5, float("nan"), 0.5), (0.5, 0.5, 1.5)])
def test_no_row_without_its_occupancies(ratios):
    with pytest.raises(ValueError, match="no occupancy could be calculated"):
        label_row(PLAN[0], "H200 SXM", "launch_config", Aggregate(*ratios), 1)
