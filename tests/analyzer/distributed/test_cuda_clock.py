"""The clock of GPUs, on a made-up one: it times what the device does, not how slowly the host queues it."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from epochcast.analyzer.backends.distributed.operator_time import timing  # noqa: E402

HERTZ, RECORDING_S = 1.5e9, 5e-6


class MadeUpGpu:
    """Stands for ``torch.cuda``, its kernels run in the order in which the host queued them, and for the host's clock."""

    def __init__(self):
        self.now = self.idle_from = 0.0  # of the host; of the device, seconds
        self.spun_s = self.queued_s = 0.0  # the last time, and what the host has done since then

    def launch(self, host_s, device_s):
        self.now += host_s
        self.queued_s += host_s
        self.idle_from = max(self.idle_from, self.now) + device_s

    def synchronize(self):
        self.now = max(self.now, self.idle_from)

    def _sleep(self, cycles):
        self.spun_s, self.queued_s = cycles / HERTZ, 0.0
        self.launch(0.0, self.spun_s)

    def get_device_properties(self, _):
        return SimpleNamespace(L2_cache_size=40 << 20)

    def Event(self, enable_timing):  # noqa: N802
        assert enable_timing
        gpu = self

        class Event:
            def record(self):
                gpu.launch(RECORDING_S, 0.0)
                self.at = gpu.idle_from

            def synchronize(self):
                gpu.now = max(gpu.now, self.at)

            def elapsed_time(self, later):
                return 1e3 * (later.at - self.at)

        return Event()


@pytest.mark.parametrize(
    ("launch_s", "run_s", "first_s"),
    [
        (3e-5, 5e-6, 3e-5),  # the host is the slower one
        (3e-5, 5e-6, 2.0),  # and compiles first
        (1e-5, 1e-3, 1e-5),  # the device is
    ],
)
def test_a_gpu_spins_while_the_host_queues_a_block_and_hardly_longer(monkeypatch, launch_s, run_s, first_s):
    gpu = MadeUpGpu()
    monkeypatch.setattr(timing, "torch", SimpleNamespace(cuda=gpu))
    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: gpu.now))
    clock = timing.CudaClock()
    host_s = iter([first_s])
    calls = [lambda: gpu.launch(next(host_s, launch_s), run_s)]
    for turn in range(3):
        assert clock.time(calls, turn) == pytest.approx(run_s)
        assert gpu.queued_s < gpu.spun_s < 2 * gpu.queued_s
