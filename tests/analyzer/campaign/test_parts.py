"""The parts of a campaign that need no training: expectation, device, reasons, and what blocks say of sampling's cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from epochcast.analyzer.campaign import device as device_module
from epochcast.analyzer.campaign import overhead as overhead_module
from epochcast.analyzer.campaign.device import choose_device
from epochcast.analyzer.campaign.expectation import Measured, expected_s
from epochcast.analyzer.campaign.overhead import slowdown
from epochcast.analyzer.campaign.plan import Workload
from epochcast.analyzer.campaign.recording import reason_of
from epochcast.analyzer.errors import InputError


def _workload(network: str = "A", batch_size: int = 16, image_size: int = 32, samples: int = 100) -> Workload:
    return Workload(network=network, batch_size=batch_size, image_size=image_size, samples=samples)


def test_what_a_run_measured_is_without_its_first_epoch() -> None:
    labels = _workload().model_dump() | {"device": "T4", "seconds": 40.0}
    marks = {"epoch_starts": [0.0, 9.0, 11.0, 14.0], "epoch_ends": [9.0, 11.0, 14.0, 16.5]}
    assert Measured.of_labels(labels | marks) == Measured(_workload(), "T4", epochs=4, epoch_s=2.5, seconds=40.0)
    alone = {name: times[:1] for name, times in marks.items()}
    assert Measured.of_labels(labels | alone).epoch_s == 9.0


def test_nothing_is_expected_of_nothing() -> None:
    assert expected_s(_workload(), 10, []) is None


def test_a_run_is_expected_to_take_what_its_networks_nearest_run_took_a_pixel() -> None:
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
        (137, [], "ended by SIGKILL (out of memory, unless somebody sent it)"),
        (139, ["Fatal Python error"], "ended by SIGSEGV: Fatal Python error"),
        (1, ["epoch", "Timeout (0:01:30)!", "Thread 0x1:", '  File "a.py", line 3'], "it hung: not finished after 90 s"),
        (3, [], "ended with status 3 and said nothing"),
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
