"""The parts of a campaign: expectation, device, reasons, sampling's cost, and what a run's process leaves."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.recording import device as device_module
from epochcast.analyzer.recording.agent_client import AgentClient
from epochcast.analyzer.recording.device import TrainingDevice, choose_device
from epochcast.analyzer.recording.record import CompletedRecording
from epochcast.analyzer.traces.trace import Trace, write_trace
from lab.campaign import overhead as overhead_module
from lab.campaign import recording
from lab.campaign.expectation import Measured, expected_s
from lab.campaign.overhead import MeasuredOverhead, append_overhead, measure_overhead, read_overheads, slowdown
from lab.campaign.plan import Overhead, Workload
from lab.campaign.recording import RecordingSettings, RunError, reason_of


def _workload(network: str = "A", batch_size: int = 16, image_size: int = 32, samples: int = 100) -> Workload:
    return Workload(network=network, batch_size=batch_size, image_size=image_size, samples=samples)


def test_what_a_run_measured_is_without_its_first_epoch() -> None:
    labels = _workload().model_dump() | {"device": "T4", "seconds": 40.0}
    marks = {"epoch_starts": [0.0, 9.0, 11.0, 14.0], "epoch_ends": [9.0, 11.0, 14.0, 16.5]}
    assert Measured.of_labels(labels | marks) == Measured(_workload(), "T4", epochs=4, epoch_s=2.5, seconds=40.0)
    alone = {name: times[:1] for name, times in marks.items()}
    assert Measured.of_labels(labels | alone).epoch_s == 9.0


def test_a_run_is_expected_to_take_what_its_networks_nearest_run_took_a_pixel() -> None:
    assert expected_s(_workload(), 10, []) is None
    small = Measured(_workload(), "T4", epochs=10, epoch_s=2.0, seconds=26.0)
    large = Measured(_workload(image_size=64), "T4", epochs=10, epoch_s=6.0, seconds=66.0)
    assert expected_s(_workload(), 10, [small, large]) == pytest.approx(26.0)
    assert expected_s(_workload(samples=300), 5, [small, large]) == pytest.approx(6.0 + 5 * 6.0)
    assert expected_s(_workload(image_size=128), 10, [small, large]) == pytest.approx(6.0 + 10 * 24.0)
    # Of a network not yet seen, the median of the rates: 2 s at 32 pixels, and 1.5 s at 64 for as many.
    assert expected_s(_workload("B"), 10, [small, large]) == pytest.approx(6.0 + 10 * 1.75)


@pytest.mark.parametrize(
    ("status", "said", "reason"),
    [
        (1, ["Traceback", "torch.OutOfMemoryError: CUDA out of memory", ""], "torch.OutOfMemoryError: CUDA out of memory"),
        (
            1,
            [
                "A library warns",
                "Traceback (most recent call last):",
                '  File "a.py", line 3',
                "RuntimeError: CUDA error: device-side assert triggered",
                "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
            ],
            "RuntimeError: CUDA error: device-side assert triggered",
        ),
        (137, [], "ended by SIGKILL (out of memory, unless someone sent the signal)"),
        (139, ["Fatal Python error"], "ended by SIGSEGV: Fatal Python error"),
        (1, ["epoch", "Timeout (0:01:30)!", "Thread 0x1:", '  File "a.py", line 3'], "it hung: not finished after 90 s"),
        (3, [], "ended with status 3 without output"),
    ],
)
def test_why_a_training_ended_is_one_sentence(status: int, said: list[str], reason: str) -> None:
    assert reason_of(status, said, 90.0) == reason


def _gpu(label: str, uuid: str) -> dict[str, str]:
    return {"label": label, "uuid": uuid, "name": "Tesla T4", "source": "nvml"}


HOST = {"label": "0", "uuid": "host-here", "name": "Some CPU", "source": "host"}


def _sampling(monkeypatch: pytest.MonkeyPatch, devices: Sequence[dict[str, str]]) -> list[str | None]:
    asked: list[str | None] = []

    def sampled(source: str | None) -> Sequence[dict[str, str]]:
        asked.append(source)
        return devices

    monkeypatch.setattr(device_module, "_sampled", sampled)
    return asked


@pytest.mark.parametrize(
    ("wanted", "visible", "uuid"),
    [
        (None, None, "GPU-a"),
        ("cuda", None, "GPU-a"),
        ("cuda:1", None, "GPU-b"),
        ("cuda:0", "1", "GPU-b"),
        ("cuda:1", "GPU-b, GPU-a", "GPU-a"),
    ],
)
def test_a_gpu_is_chosen_as_cuda_and_the_agent_both_know_it(
    monkeypatch: pytest.MonkeyPatch, wanted: str | None, visible: str | None, uuid: str
) -> None:
    _sampling(monkeypatch, [_gpu("0", "GPU-a"), _gpu("1", "GPU-b")])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    chosen = choose_device(wanted, None, cuda_devices=2)
    assert (chosen.torch, chosen.uuid, chosen.source) == ("cuda:0", uuid, None)
    assert chosen.environment == {"CUDA_VISIBLE_DEVICES": uuid}


def test_without_a_gpu_the_cpu_is_trained_on_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _sampling(monkeypatch, [HOST])
    chosen = choose_device(None, None, cuda_devices=0)
    assert (chosen.torch, chosen.name, chosen.file_name, asked) == ("cpu", "Some CPU", "Some-CPU", ["host"])


@pytest.mark.parametrize(
    ("wanted", "devices", "sentence"),
    [
        ("gpu", [HOST], "--device is 'gpu'; give cpu, or cuda:N"),
        ("cuda:2", [_gpu("0", "GPU-a")], "--device is 'cuda:2', but PyTorch sees 2 GPUs"),
        ("cuda:1", [HOST], r"the agent does not read GPU 1; it reads Some CPU \(host\)"),
        ("cuda:0", [HOST], r"the agent does not read GPU 0; it reads Some CPU \(host\)"),
    ],
)
def test_a_device_that_is_not_there_is_refused(
    monkeypatch: pytest.MonkeyPatch, wanted: str, devices: list[dict[str, str]], sentence: str
) -> None:
    _sampling(monkeypatch, devices)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with pytest.raises(InputError, match=sentence):
        choose_device(wanted, None, cuda_devices=2)


def test_blocks_that_alternate_see_through_a_machine_that_slows_down() -> None:
    """Every block is 1 % slower than the one before; sampling costs 5 %."""
    order = [True, False, False, True] * 2
    seconds: dict[bool, list[list[float]]] = {True: [], False: []}
    for number, sampled in enumerate(order):
        seconds[sampled].append([1.01**number * (1.05 if sampled else 1.0)] * 2)
    value, low, high = slowdown(seconds[True], seconds[False])
    assert value == pytest.approx(0.05, abs=1e-9)
    assert low < 0.05 < high


def test_the_interval_of_an_overhead_holds_it_nine_times_in_ten() -> None:
    rng = np.random.default_rng(0)

    def held() -> bool:
        with_s, without_s = ((factor * np.exp(rng.normal(0, 0.05, (4, 1)))).tolist() for factor in (1.03, 1.0))
        _, low, high = slowdown(with_s, without_s)
        return bool(low < 0.03 < high)

    assert np.mean([held() for _ in range(1000)]) == pytest.approx(0.9, abs=0.03)


def test_every_other_block_is_sampled_and_the_first_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    agents: list[bool] = []

    @contextmanager
    def agent(arguments: Sequence[str]) -> Iterator[None]:
        agents.append(True)
        yield
        agents.pop()

    monkeypatch.setattr(overhead_module, "agent_process", agent)
    trained: list[bool] = []

    def train() -> list[float]:
        trained.append(bool(agents))
        return [2.0 if agents else 1.0]

    assert overhead_module._blocks(train, 3, None) == ([[2.0]] * 3, [[1.0]] * 3)
    assert trained == [False, True, False, False, True, True, False]


GPU = TrainingDevice("cuda:0", "Tesla T4", "GPU-b", "nvml")
WORKLOAD = Workload(network="Net", batch_size=16, image_size=32, samples=100)
BLOCKS = Overhead(network="Net", batch_size=16, image_size=32, samples=100, epochs=1, pairs=2)


def _trace(folder: Path, uuid: str) -> Path:
    frame = pd.DataFrame({"time": [0.0, 0.1], "power": [1.0, 2.0]})
    return write_trace(Trace(frame, gpu="Tesla T4", uuid=uuid), folder / f"run.{uuid}.parquet")


def test_of_several_gpus_the_one_that_trained_is_kept(tmp_path: Path) -> None:
    traces = tuple(_trace(tmp_path, uuid) for uuid in ("GPU-a", "GPU-b", "GPU-c"))
    assert recording._trained_device(CompletedRecording(traces, 6, 0, 0), GPU, []) == traces[1]
    assert list(tmp_path.iterdir()) == [traces[1]]


def test_a_gpu_that_gave_no_sample_is_a_failed_run(tmp_path: Path) -> None:
    traces = tuple(_trace(tmp_path, uuid) for uuid in ("GPU-a", "GPU-c"))
    with pytest.raises(RunError, match=r"the agent gave no sample of Tesla T4 \(GPU-b\)"):
        recording._trained_device(CompletedRecording(traces, 4, 0, 0), GPU, [])


def test_a_trace_that_cannot_be_written_is_no_failure_of_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = CompletedRecording((), 4, 0, 1, "cannot write 'run.parquet': No space left on device")
    monkeypatch.setattr(recording, "record", lambda *_, **__: result)
    with pytest.raises(InputError, match="No space left on device"):
        recording.record_run(WORKLOAD, 1, tmp_path, "run", RecordingSettings(GPU))


def test_labels_are_found_among_what_else_was_said_and_say_what_was_trained() -> None:
    marks = {"epoch_starts": [1.0], "epoch_ends": [2.0], "training": True, "threads": 2}
    said = ["a network's own words", json.dumps(marks), "[W] a library's, at its end"]
    labels = recording._labels(WORKLOAD, said)
    assert (labels["workload"], labels["group"], labels["samples"], labels["threads"]) == ("Net|16|32|100", "Net", 100, 2)


@pytest.mark.parametrize("said", [[], ["[1]"], ['{"epoch_starts": [1.0]}']])
def test_a_training_without_labels_is_a_failed_run(said: list[str]) -> None:
    with pytest.raises(RunError, match="did not report its epochs"):
        recording._labels(WORKLOAD, said)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import sys; sys.exit('no memory')", "no memory"),
        (
            """input(); print("[1, 3]"); print('{"epoch_s": [1.0]}', flush=True); input(); raise ValueError('in the second')""",
            "ValueError: in the second",
        ),
        # Dead before the line that asks it for the second: while the agent started.
        ("""input(); print('{"epoch_s": [1.0]}', flush=True); import sys; sys.exit('out of memory')""", "out of memory"),
    ],
)
def test_blocks_that_break_say_why(monkeypatch: pytest.MonkeyPatch, program: str, reason: str) -> None:
    monkeypatch.setattr(overhead_module, "trainer_command", lambda *_, **__: [sys.executable, "-c", program])
    monkeypatch.setattr(AgentClient, "healthy", lambda client: False)
    with pytest.raises(RunError, match=reason):
        measure_overhead(BLOCKS, "run", RecordingSettings(TrainingDevice("cpu", "Some CPU", "host-here", "host")))


def test_where_an_agent_samples_all_the_time_its_cost_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AgentClient, "healthy", lambda client: True)
    with pytest.raises(RunError, match="an epochcast-agent is already sampling this node; stop it"):
        measure_overhead(BLOCKS, "run", RecordingSettings(GPU))


@pytest.mark.parametrize("change", [{"overhead": "much"}, {"with_s": 5}, {"high": None}, None])
def test_a_broken_list_of_overheads_is_refused(tmp_path: Path, change: dict[str, object] | None) -> None:
    append_overhead(tmp_path, MeasuredOverhead("run", "Net|16", "CPU", 0.01, -0.01, 0.03, [[1.0]], [[1.0]], 0.1, 1e9))
    (entry,) = read_overheads(tmp_path)
    (tmp_path / "overhead.json").write_text("[{" if change is None else json.dumps([asdict(entry) | change]))
    with pytest.raises(InputError, match=r"overhead.json' is not a readable list of overheads: .*; remove it"):
        read_overheads(tmp_path)
