"""``epochcast measure occupancy``: networks train on the CPU here, the GPU that the agent reads is a driver made of C."""

import itertools
import json
import signal
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

import torch

from epochcast.analyzer.backends.occupancy import measure as measure_command
from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration
from epochcast.analyzer.backends.occupancy.measurement import COLUMNS, FIGURES, collection, training_run
from epochcast.analyzer.backends.occupancy.measurement.collection import collect, figures, measure, plan
from epochcast.analyzer.backends.occupancy.measurement.training_run import OneTensor, train
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.recording import device as device_module
from epochcast.analyzer.recording.device import TrainingDevice
from epochcast.analyzer.recording.record import CompletedRecording
from epochcast.analyzer.traces.trace import Trace, write_trace

NETS = """
import torch
from torch import nn, zeros

class Net(nn.Sequential):
    seen = []

    def __init__(self):
        super().__init__(nn.Conv2d(3, 8, 3), nn.Dropout(0.5), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))

    def forward(self, x):
        if not x.is_meta:
            self.seen.append((x, self.training, self[0].weight.detach().clone()))
        return super().forward(x)

class Full(Net):
    def forward(self, x):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

class FullBesideThePool(Net):
    def forward(self, x):
        raise RuntimeError("CUDA error: out of memory")

class FullHost(Net):
    def forward(self, x):
        raise MemoryError

class Raises(Net):
    def forward(self, x):
        raise KeyError("mine")

def _with_input(kind):
    return lambda: (kind(), zeros(1, 3, 16, 16))

small, full, full_beside, full_host, raises = map(_with_input, (Net, Full, FullBesideThePool, FullHost, Raises))
"""
GPU = TrainingDevice("cpu", "NVIDIA H200", "GPU-stub-0", "gpm")
SMALL = NetworkConfiguration("my_nets:small", 4)
ROW = {**dict.fromkeys(FIGURES, 0.5), "status": "SUCCESSFUL"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "my_nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("my_nets", None)


# The program that is recorded


def test_the_network_trains_by_adam_on_random_data_between_the_times_it_gives(monkeypatch, one_thread):
    ticks = itertools.count(100.0, 0.25)  # each look at the clock
    monkeypatch.setattr(training_run, "time", SimpleNamespace(time=lambda: next(ticks)))
    # The first step is over at 100 s, and NVML's utilisation is of the steps alone a second later.
    assert train(SMALL, "cpu", 0.5) == {"begin": 101.0, "end": 101.75}
    seen = sys.modules["my_nets"].Net.seen
    assert len(seen) == 1 + 5 and all(trains for _, trains, _ in seen)
    inputs, weights = seen[0][0], [weight for _, _, weight in seen]
    assert inputs.shape == (4, 3, 16, 16) and inputs.dtype == torch.float32 and inputs.std() > 0.5
    # Adam's first step is the learning rate (1e-6) for every weight that has a gradient.
    assert (weights[1] - weights[0]).abs().median() == pytest.approx(1e-6, rel=0.2)


@pytest.mark.parametrize(
    ("network", "reason", "full"),
    [
        ("full", "out of memory", True),
        ("full_beside", "CUDA error", True),
        ("full_host", "out of memory", False),
        ("raises", "KeyError: 'mine'", False),
        ("absent", "has no attribute 'absent'", False),
    ],
)
def test_only_the_gpus_memory_counts_as_out_of_memory(network, reason, full):
    answer = train(NetworkConfiguration(f"my_nets:{network}", 4), "cpu", 0.0)
    assert answer["out_of_memory"] is full
    assert reason in answer["reason"]


@pytest.mark.parametrize(
    "configuration",
    [
        NetworkConfiguration("lenet", 2, channels=1, image_size=32),
        NetworkConfiguration("lstm", 2, sequence=3, hidden=8, layers=2),
        NetworkConfiguration("distilbert", 1, sequence=4),
    ],
)
def test_networks_of_table_ii_train_whatever_they_answer(monkeypatch, configuration, one_thread):
    if configuration.network == "distilbert":
        pytest.importorskip("transformers")
    monkeypatch.setattr(training_run, "NVML_WINDOW_S", 0.0)
    assert set(train(configuration, "cpu", 0.0)) == {"begin", "end"}


def test_the_gradient_reaches_every_tensor_that_a_network_answers():
    class Towers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.image, self.text = torch.nn.Linear(3, 4), torch.nn.Linear(3, 5)

        def forward(self, x):
            return self.image(x), {"text": self.text(x), "length": 3, "mask": torch.ones(2)}

    towers = Towers()
    answer = OneTensor(towers)(torch.randn(2, 3))
    assert answer.dim() == 0
    answer.backward()
    assert towers.image.bias.grad.tolist() == pytest.approx([1 / 4] * 4)
    assert towers.text.bias.grad.tolist() == pytest.approx([1 / 5] * 5)
    image = torch.nn.Linear(3, 4)
    given = torch.randn(2, 3)
    assert torch.equal(OneTensor(image)(given), image(given))


# What was read while it ran


def _frame(**metrics):
    return pd.DataFrame({"time": np.arange(10.0, 20.0), **metrics})


def test_figures_are_of_the_steps_alone():
    inside = [0, 0, 0, 1, 0.5, 0.75, 0, 0, 0, 0]  # at 13, 14, 15 s
    memory = np.array([9, 9, 9, 3, 5, 4, 9, 9, 9, 9]) * 2.0**20
    frame = _frame(sm_active=inside, sm_occupancy=np.multiply(inside, 0.4), gpu_utilization=inside, memory_used=memory)
    assert figures(frame, 12.5, 15.5) == pytest.approx(
        {"peak_memory_mib": 5, "gpu_utilization_percent": 75, "sm_active": 0.75, "sm_occupancy": 0.3}
    )


def test_what_was_not_read_is_minus_one_and_gaps_do_not_count():
    once = [np.nan] * 5 + [0.8] + [np.nan] * 4
    read = figures(_frame(gpu_utilization=once, sm_active=[np.nan] * 10), 10.0, 19.0)
    assert read == {"peak_memory_mib": -1, "gpu_utilization_percent": 80, "sm_active": -1, "sm_occupancy": -1}
    for frame, end in [(_frame(sm_active=once), 14.0), (_frame(power=[1.0] * 10), 19.0)]:
        with pytest.raises(collection._NoFiguresError, match="no sample while its steps ran"):
            figures(frame, 10.0, end)


@pytest.fixture
def recorded(monkeypatch):
    """Stands in for `record`: the program's answer (None: it writes none), its status, and the GPUs that were read."""

    def make(answer, status=0, uuids=("GPU-stub-1", "GPU-stub-0")):
        def record(command, out, *, source, stdout):
            assert command[0] == "env" and source == "gpm"
            if answer is not None:
                Path(command[-1]).write_text(json.dumps(answer))
            shares = {uuid: 0.25 * (number + 1) for number, uuid in enumerate(uuids)}
            traces = [Trace(_frame(sm_active=[share] * 10), uuid=uuid) for uuid, share in shares.items()]
            return CompletedRecording(
                tuple(write_trace(one, out.with_suffix(f".{one.uuid}.csv")) for one in traces), 10, 0, status
            )

        monkeypatch.setattr(collection, "record", record)

    return make


def test_the_gpu_that_trained_is_the_one_that_counts(recorded):
    recorded({"begin": 12.0, "end": 15.0})
    assert measure(SMALL, GPU, 2.0)["sm_active"] == 0.5
    recorded({"begin": 12.0, "end": 15.0}, uuids=("GPU-stub-1",))
    with pytest.raises(InputError, match=r"no sample of NVIDIA H200 \(GPU-stub-0\); see: epochcast-agent check"):
        measure(SMALL, GPU, 2.0)


def test_a_process_that_dies_is_a_reason_and_a_signal_ends_the_command(recorded):
    recorded(None, status=128 + signal.SIGKILL)
    with pytest.raises(collection._NoFiguresError, match="ended with status 137"):
        measure(SMALL, GPU, 2.0)
    for number in (signal.SIGINT, signal.SIGTERM):
        recorded(None, status=128 + number)
        with pytest.raises(SystemExit) as ended:
            measure(SMALL, GPU, 2.0)
        assert ended.value.code == 128 + number


# The table


def test_every_network_at_every_batch_once_in_an_order_of_the_seed():
    planned = plan(("resnet18", "lstm", "my_nets:small", "lstm"), (8, 32, 8), seed=3)
    assert len(planned) == len(set(planned)) == 6
    assert NetworkConfiguration("lstm", 32, sequence=64, hidden=256, layers=1) in planned
    assert NetworkConfiguration("resnet18", 8, channels=3, image_size=224) in planned
    many = [plan(("resnet18", "lstm", "bert"), range(1, 9), seed) for seed in (3, 3, 4)]
    assert many[0] == many[1] != many[2]
    assert set(many[0]) == set(many[2])


@pytest.fixture
def collected(monkeypatch):
    """Collect three batches of a network; trainings take no time but what ``takes`` says, and which were measured is noted."""
    measured = []

    def run(deadline=1e9, batches=(1, 2, 4), fails=(), takes=None, gpu="H200 SXM"):
        now = 0.0

        def fake(configuration, device, seconds):
            nonlocal now
            now += (takes or {}).get(configuration.batch, 0.0)
            measured.append(configuration.batch)
            assert (device, seconds) == (GPU, 20.0)
            if configuration.batch in fails:
                raise collection._NoFiguresError("no luck")
            return ROW

        monkeypatch.setattr(collection, "measure", fake)
        monkeypatch.setattr(collection, "time", SimpleNamespace(monotonic=lambda: now))
        planned = [NetworkConfiguration("lenet", batch, 3, 32) for batch in batches]
        return collect(
            planned, Path("trainings.csv"), GPU, gpu, 20.0, deadline, lambda done, total: measured.append((done, total))
        )

    run.measured = measured
    return run


def test_the_same_command_continues_where_the_budget_ended(collected):
    first = collected(takes={1: 9.0}, deadline=5.0)
    assert (first.rows, first.new, first.left, first.failed) == (1, 1, 2, 0)
    second = collected()
    assert (second.rows, second.new, second.left) == (3, 2, 0)
    assert collected.measured == [1, (1, 3), 2, (1, 2), 4, (2, 2)]
    table = pd.read_csv("trainings.csv")
    assert tuple(table.columns) == COLUMNS
    expected = {**asdict(NetworkConfiguration("lenet", 4, 3, 32)), "gpu": "H200 SXM", **ROW}
    assert table.iloc[2].to_dict() == expected


@pytest.mark.parametrize(("deadline", "new"), [(21.9, 1), (22.0, 2), (31.9, 2), (32.0, 3)])
def test_no_training_starts_that_would_end_after_the_budget(collected, deadline, new):
    """As long as the longest so far: the first, whose imports were not cached, though it failed."""
    taken = collected(deadline, takes={1: 11.0, 2: 10.0, 4: 11.0}, fails=(1,))
    assert (taken.new + taken.failed, taken.left) == (new, 3 - new)


def test_a_failure_is_counted_and_tried_again(collected):
    first = collected(fails=(1, 4))
    assert (first.rows, first.new, first.left, first.failed, first.reasons) == (1, 1, 0, 2, {"no luck": 2})
    assert collected().rows == 3


def test_a_table_of_another_gpu_is_not_continued(collected):
    collected()
    with pytest.raises(InputError, match="'H200 SXM' but this run has 'T4'; give another file"):
        collected(gpu="T4")


# The command


@pytest.fixture
def here(monkeypatch, folder, nvml_library):
    """As if PyTorch saw the GPU of the driver made of C, but networks train on the CPU."""
    (folder / "scenario").write_text("gpus 1\n")
    monkeypatch.setenv("NVML_STUB_SCENARIO", str(folder / "scenario"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_library.parent))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    choose = device_module.choose_device
    monkeypatch.setattr(device_module, "choose_device", lambda *arguments: replace(choose(*arguments), torch="cpu"))


@pytest.mark.usefixtures("here")
def test_a_training_is_a_row_of_what_the_agent_read(answered, printed):
    command = ["measure", "occupancy", "--batch", "4", "--seconds", "2", "--out", "trainings.csv"]
    asked = [part for name in ("small", "full", "raises") for part in ("--network", f"my_nets:{name}")]
    answer = answered(*command, *asked)
    assert answer == {
        "rows": 2,
        "new": 2,
        "left": 0,
        "failed": 1,
        "reasons": {"KeyError: 'mine'": 1},
        "gpu": "H200 SXM",
    }
    table = pd.read_csv("trainings.csv").set_index("network")
    full, small = table.loc["my_nets:full"], table.loc["my_nets:small"]
    assert full["status"] == "OOM_CRASH" and (full[list(FIGURES)] == -1).all()
    assert small["status"] == "SUCCESSFUL" and small["batch"] == 4 and small["gpu"] == "H200 SXM"
    # What the driver says of an H200 that is busy (tests/agent/nvml_stub.c).
    assert small["sm_active"] == pytest.approx(0.85) and small["sm_occupancy"] == pytest.approx(0.45)
    assert small["gpu_utilization_percent"] == pytest.approx(90)
    assert small["peak_memory_mib"] == pytest.approx(150_754_820_096 / 4 / 2**20)
    said = printed(*command, "--network", "my_nets:small")
    assert said.splitlines()[-1] == "trainings.csv: 2 trainings, 0 of them new, on H200 SXM"


@pytest.mark.usefixtures("here")
def test_a_table_that_stays_empty_is_no_answer(printed, monkeypatch):
    def fails(*_):
        raise collection._NoFiguresError("no luck")

    monkeypatch.setattr(collection, "measure", fails)
    command = ("measure", "occupancy", "--network", "lenet", "--batch", "1", "--batch", "2", "--out", "trainings.csv")
    said = printed(*command, "--budget", "0", status=1)
    assert "0 trainings, 0 of them new, on H200 SXM; 1 trainings are left for another run; 1 could not be measured" in said
    assert "  1 x no luck" in said


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("budget", "new"), [(26, 1), (27, 2)])
def test_the_budget_counts_all_that_the_command_does(answered, monkeypatch, budget, new):
    now = 0.0

    def passes(seconds, answer):
        nonlocal now
        now += seconds
        return answer

    clock = SimpleNamespace(monotonic=lambda: now)
    for module in (measure_command, collection):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: passes(5.0, True))
    monkeypatch.setattr(collection, "measure", lambda *_: passes(11.0, ROW))
    batches = [part for batch in (1, 2, 4) for part in ("--batch", batch)]
    answer = answered("measure", "occupancy", "--network", "lenet", *batches, "--budget", budget, "--out", "trainings.csv")
    assert (answer["new"], answer["left"]) == (new, 3 - new)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--network resnet5", "resnet5"),
        ("--device cpu", "'cpu' is not 'cuda'"),
        ("--seconds 1", "--seconds"),
        (f"--network lenet --batch {2**20 + 1}", "give a batch from 1 to 1048576"),
        ("--network lenet --out my_nets.py", "give another file"),
    ],
)
@pytest.mark.usefixtures("here")
def test_bad_input_is_one_sentence(refused, arguments, said):
    assert said in refused("measure", "occupancy", "--out", "trainings.csv", *arguments.split())


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_is_said(refused):
    assert "torch finds no CUDA device here; measure where the GPU is" in refused("measure", "occupancy", "--out", "t.csv")
