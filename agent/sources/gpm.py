"""NVIDIA GPUs through NVML's GPU performance monitoring (GPM): profiling metrics without DCGM, on Hopper and newer.

A GPM metric is what the hardware counted between two samples. A GPU must not be sampled twice within 0.1 s (NVIDIA: the values
are wrong then), nor may two threads call GPM at once (the driver's library crashes).
"""

import logging
from collections.abc import Mapping, Sequence
from ctypes import byref
from itertools import cycle
from math import inf, nan
from operator import mul
from struct import Struct
from threading import Lock
from time import monotonic, sleep
from typing import Any

import pynvml

from epochcast.agent.catalog import Metric
from epochcast.agent.config import Config
from epochcast.agent.sources import Row, Tick
from epochcast.agent.sources.nvml import NvmlSource
from epochcast.agent.sources.nvml_gpu import NvmlDevice
from epochcast.agent.sources.nvml_library import GONE, LATER, SOME_ANSWER, DriverError, call, formatted, function
from epochcast.common.errors import InputError

log = logging.getLogger(__name__)

SPACING_S = 0.1
# Rather than leave a value out, wait for so little.
SHORT_WAIT_S = 0.002
# A sample older than this (for the rare tier: than two minutes) is of another time: the agent was stopped, the GPU absent.
LONGEST_WINDOW_S = 5.0
LONGEST_RARE_WINDOW_S = 120.0
# What a metric is multiplied by, by its unit: GPM gives per cent and MiB/s.
SCALE = {"ratio": 1e-2, "bytes/s": 1024.0**2}

# Of all sources of this process: one call at a time, and when each device was last sampled, by UUID.
_lock = Lock()
_sampled: dict[str, float] = {}


class GpmWindow:
    """Two samples of one GPU or MIG instance, and the metrics of the time between them.

    ``metrics``: those requested, in the order of `read`; ``refused``: those that `probe` found refused, and why. ``read_at``:
    the end of its newest window.
    """

    def __init__(self, device: NvmlDevice, wanted: Mapping[str, Metric]) -> None:
        self.metrics = tuple(wanted)
        self.refused: Mapping[str, str] = {}
        self._wanted = wanted
        rare = all(metric.tier == "rare" for metric in wanted.values())
        self._longest = LONGEST_RARE_WINDOW_S if rare else LONGEST_WINDOW_S
        self._samples: list[Any] = []
        self._codes: tuple[int, ...] = (pynvml.NVML_SUCCESS,) * len(wanted)
        self.attach(device)

    def attach(self, device: NvmlDevice) -> None:
        """Sample this GPU from now on; raises DriverError."""
        self.close()
        self.uuid = device.uuid
        self._where: tuple[Any, ...]
        if device.instance is None:
            self._take, self._where = function("nvmlGpmSampleGet"), (device.handle,)
        else:
            self._take, self._where = function("nvmlGpmMigSampleGet"), (device.parent, device.instance)
        self._compute = function("nvmlGpmMetricsGet")
        with _lock:
            self._samples = [call(pynvml.nvmlGpmSampleAlloc) for _ in range(2)]
        self.read_at = -inf
        self._request(self.metrics)

    def _request(self, names: Sequence[str]) -> None:
        self.metrics = tuple(names)
        self._scales = tuple(SCALE[self._wanted[name].unit] for name in names)
        # The two samples take turns to be the newer one: a question for each turn.
        older, newer = self._samples
        self._turns = cycle([(newer, *self._question(older, newer)), (older, *self._question(newer, older))])
        kind = pynvml.c_nvmlGpmMetric_t
        self._answers = Struct("=" + formatted(kind, {"nvmlReturn": "I", "value": "d"}) * len(names))

    def _question(self, older: Any, newer: Any) -> tuple[Any, Any]:
        """Return what asks for the metrics between two samples, and where the driver writes its answers."""
        query = pynvml.c_nvmlGpmMetricsGet_t(
            version=pynvml.NVML_GPM_METRICS_GET_VERSION, numMetrics=len(self.metrics), sample1=older, sample2=newer
        )
        for answer, name in zip(query.metrics, self.metrics, strict=False):
            answer.metricId = self._wanted[name].gpm
        return byref(query), query.metrics

    def wait(self) -> None:
        """Sleep until it may be sampled."""
        sleep(max(0.0, _sampled.get(self.uuid, -inf) + SPACING_S - monotonic()))

    def probe(self) -> None:
        """Take a sample and, unless it is the first, give up the metrics that the driver refuses for good."""
        if not self.metrics:
            return
        self.wait()
        try:
            self.read()
        except DriverError as error:
            self.refused = dict.fromkeys(self.metrics, str(error))
        else:
            self.refused = {
                name: str(DriverError(f"NVML GPM metric {self._wanted[name].gpm}", code))
                for name, code in zip(self.metrics, self._codes, strict=True)
                if code and code not in LATER
            }
        if self.refused:
            self._request([name for name in self.metrics if name not in self.refused])

    def read(self) -> Sequence[float]:
        """Sample; return the metrics since the last sample, NaN for one without value, nothing too early or too late for any.

        Too early, the last sample stays, and the next window covers this time too. Raises DriverError.
        """
        early = _sampled.get(self.uuid, -inf) + SPACING_S - monotonic()
        if early > SHORT_WAIT_S:
            return ()
        if early > 0:
            sleep(early)
        newer, question, answers = next(self._turns)
        with _lock:
            code = self._take(*self._where, newer)
            # The moment after the call, for the sample may be of any moment within it.
            now = _sampled[self.uuid] = monotonic()
            if code:
                # What answers next may be another instance of the same number: start again.
                self.read_at = -inf
                raise DriverError(self._take.__name__, code)
            window, self.read_at = now - self.read_at, now
            if window > self._longest:
                return ()
            if code := self._compute(question):
                raise DriverError("nvmlGpmMetricsGet", code)
        got = self._answers.unpack_from(answers)
        self._codes = got[0::2]
        if any(self._codes):
            gone = GONE.intersection(self._codes)
            # A GPU that answers for no metric does not answer.
            if gone or SOME_ANSWER.isdisjoint(self._codes):
                raise DriverError("nvmlGpmMetricsGet", next(iter(gone or self._codes)))
            return [
                nan if code else value * scale for code, value, scale in zip(self._codes, got[1::2], self._scales, strict=True)
            ]
        return list(map(mul, got[1::2], self._scales))

    def close(self) -> None:
        """Give the samples back."""
        samples, self._samples = self._samples, []
        try:
            with _lock:
                for sample in samples:
                    call(pynvml.nvmlGpmSampleFree, sample)
        except DriverError as error:
            log.debug("%s", error)


def _supports(device: NvmlDevice) -> bool:
    try:
        return bool(call(pynvml.nvmlGpmQueryDeviceSupport, device.parent).isSupportedDevice)
    except DriverError as error:
        log.debug("GPU %s: %s", device.label, error)
        return False


class GpmSource(NvmlSource):
    """The GPUs, and their MIG instances, that have GPM: all that source ``nvml`` reads of them, and the profiling metrics."""

    name = "gpm"

    def __init__(self, config: Config, only: frozenset[str] | None) -> None:
        start = monotonic()
        self._windows: list[GpmWindow] = []
        super().__init__(config, only)
        self.ready_at = self._ready_after(start)

    def _profile(self, devices: list[NvmlDevice]) -> list[NvmlDevice]:
        """Make a window of each GPU or instance that has GPM; raises InputError when there is none."""
        profiled = {name: metric for name, metric in self._wanted.items() if metric.gpm is not None}
        supported = [device for device in devices if _supports(device)]
        try:
            self._windows = [GpmWindow(device, profiled) for device in supported]
        except DriverError as error:
            raise InputError(
                f"source 'gpm' cannot use this driver ({error}); update it, or choose --source dcgm or nvml"
            ) from error
        if not self._windows:
            raise InputError(
                f"source 'gpm' finds no GPU with NVML's performance monitoring among {len(devices)} (it needs Hopper or "
                "newer); choose --source dcgm or nvml"
            )
        for _ in range(2):
            for window in self._windows:
                window.probe()
        self._profilers = {window.uuid: window for window in self._windows}
        return supported

    def read(self, tick: Tick) -> Sequence[Row]:
        """Return one row per GPU that answers; raise RuntimeError when none does."""
        start = monotonic()
        try:
            return super().read(tick)
        finally:
            self.ready_at = self._ready_after(start)

    def _ready_after(self, start: float) -> float:
        """Return when the GPUs sampled since ``start`` may be sampled again, in this order and with short waits at most."""
        sampled = [moment for window in self._windows if (moment := _sampled.get(window.uuid, -inf)) >= start]
        return max(min(sampled), max(sampled) - SHORT_WAIT_S) + SPACING_S if sampled else self.ready_at
