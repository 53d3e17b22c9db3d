"""NVIDIA GPUs through NVML, the driver's own library: no DCGM, no privileges."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf, isnan, nan
from time import monotonic
from typing import TYPE_CHECKING

import pynvml

from epochcast.agent.config import Config
from epochcast.agent.sources import Device, Row, Source, Tick
from epochcast.agent.sources.nvml_events import XidEvents
from epochcast.agent.sources.nvml_gpu import ALL_TIERS, LEVELS, Call, NvmlDevice, NvmlGpu, find
from epochcast.agent.sources.nvml_library import DriverError, call, initialise
from epochcast.agent.sources.nvml_static import INSTANCE_STATIC, STATIC, static_attributes
from epochcast.common.errors import InputError

if TYPE_CHECKING:
    from epochcast.agent.sources.gpm import GpmWindow

log = logging.getLogger(__name__)

UNKNOWN_TO_NVML = "classic NVML has no profiling metrics: source 'gpm' has them on Hopper and newer, 'dcgm' on older GPUs"


class NvmlSource(Source):
    """All GPUs that the driver shows, and their MIG instances, by classic NVML.

    A GPU that stops answering is left out and tried again while the others go on. ``outdated`` is looked at in the rare tier.
    """

    name = "nvml"
    silent_after = 1.0

    def __init__(self, config: Config, only: frozenset[str] | None) -> None:
        self.blanks: Counter[tuple[int, str]] = Counter()
        self._wanted = {metric.name: metric for metric in config.metrics().values() if metric.scope == "gpu"}
        self._gpus: list[NvmlGpu] = []
        self._absent = 0
        self._left_out: list[NvmlDevice] = []
        self._profilers: Mapping[str, GpmWindow] = {}
        self._xids: XidEvents | None = None
        self._reported: list[tuple[int, int]] = []
        self._initialised = False
        try:
            self._open()
            self._adopt(self._find(only))
        except (DriverError, InputError) as error:
            self.close()
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"source {self.name!r} cannot use the NVIDIA driver ({error}); install or repair it, or choose --source host"
            ) from error

    def _find(self, only: frozenset[str] | None) -> list[NvmlDevice]:
        """Return the GPUs and instances that answer, among ``only``; raises InputError when there is none."""
        devices = list(find())
        self._known = {device.uuid: device.parent_uuid for device in devices}
        count, answering = call(pynvml.nvmlDeviceGetCount), len(set(self._known.values()))
        if not devices:
            raise InputError(
                f"source {self.name!r} finds the NVIDIA driver but no GPU that answers (of {count}); choose --source host"
            )
        self.counted = count
        if answering < count:
            log.warning("%d of %d GPUs do not answer and are skipped until they do", count - answering, count)
        if only is None:
            return devices
        chosen = [device for device in devices if device.uuid in only]
        if not chosen:
            raise InputError(f"source {self.name!r} sees none of the GPUs to read: {', '.join(sorted(only))}")
        return chosen

    def _profile(self, devices: list[NvmlDevice]) -> list[NvmlDevice]:
        """Make ready what else is read of GPUs and instances, in ``_profilers``; return those that are read at all."""
        return devices

    def _adopt(self, targets: list[NvmlDevice]) -> None:
        """Make a device of each GPU and instance found; raises InputError when there is none."""
        targets = self._profile(targets)
        devices = []
        for target in targets:
            try:
                gpu, device = self._device(target)
            except DriverError as error:
                log.warning("GPU %s does not answer and is skipped until it does: %s", target.label, error)
                self._left_out.append(target)
            else:
                self._gpus.append(gpu)
                devices.append(device)
        if not devices:
            raise InputError(f"source {self.name!r}: none of {len(targets)} GPUs answers; repair them, or choose --source host")
        self.devices = tuple(devices)
        # All values of a tick are in one flat list, ``width`` for each device. What each of them is:
        self._width = max(len(device.metrics) for device in devices)
        self._metrics = [
            metric for device in devices for metric in (*device.metrics, *[None] * (self._width - len(device.metrics)))
        ]
        for position, gpu in enumerate(self._gpus):
            try:
                gpu.place(position * self._width)
            except DriverError as error:
                gpu.lose(0.0, error)
            self._watch(position, gpu.device)
        self._make_plan()

    def _make_plan(self) -> None:
        """List the calls of a tick of each level, to the GPUs that answer."""
        answering = [gpu for gpu in self._gpus if not gpu.absent]
        self._absent = len(self._gpus) - len(answering)
        # Profiling metrics of all GPUs first: nothing else then varies the time from one sample to the next. Then what is fast:
        # what takes longest delays none of it.
        calls = sorted((call for gpu in answering for call in gpu.calls), key=lambda call: (not call.profiled, call.level))
        self._plan = tuple([call for call in calls if call.level <= level] for level in LEVELS.values())

    def _device(self, device: NvmlDevice) -> tuple[NvmlGpu, Device]:
        """Try what can be read of a GPU or instance; raises DriverError when it does not answer."""
        gpu = NvmlGpu(device, self._wanted, self._profilers.get(device.uuid))
        measured = {metric.name for metric in gpu.metrics}
        unmeasured = dict.fromkeys(self._wanted, UNKNOWN_TO_NVML) | gpu.unmeasured
        return gpu, Device(
            index=device.index,
            uuid=device.uuid,
            name=call(pynvml.nvmlDeviceGetName, device.handle),
            source=self.name,
            metrics=gpu.metrics,
            instance=device.instance,
            static=static_attributes(device.label, device.handle, STATIC if device.instance is None else INSTANCE_STATIC),
            unmeasured={name: why for name, why in unmeasured.items() if name not in measured},
        )

    def _watch(self, position: int, device: NvmlDevice) -> None:
        """Take note of a GPU's Xid errors from now on; of an instance the driver reports none."""
        if device.instance is None:
            try:
                if self._xids is None:
                    self._xids = XidEvents(self._reported)
                self._xids.watch(position, device.handle)
            except DriverError as error:
                log.info("GPU %s: Xid errors are not counted: %s", device.label, error)

    def read(self, tick: Tick) -> Sequence[Row]:
        """Return one row per GPU that answers; raise RuntimeError when none does."""
        start = monotonic()
        level = ALL_TIERS if tick.rare else LEVELS["slow"] if tick.slow else LEVELS["fast"]
        recovered = self._find_again(tick) if self._absent else []
        if recovered:
            level = ALL_TIERS
        values = [nan] * (self._width * len(self._gpus))
        incomplete: list[tuple[Call, DriverError | None]] = []
        for planned in self._plan[level]:
            gpu, read, places, span, *_ = planned
            if gpu.absent:
                continue
            self.asking = gpu.device.uuid
            try:
                got = read()
            except DriverError as error:
                if error.gone:
                    gpu.lose(tick.elapsed, error)
                incomplete.append((planned, error))
                continue
            if span is not None and got:
                values[span] = got
            elif got:
                for place, column in places:
                    values[column] = got[place]
            if gpu.read_at < start and got:
                profiled_at = gpu.profiler.read_at if gpu.profiler else -inf
                gpu.read_at = profiled_at if profiled_at >= start else monotonic()
            total = sum(got)
            if total != total:  # some value is NaN
                incomplete.append((planned, None))
        self.asking = None
        if incomplete:
            self._judge(tick, level, incomplete, values)
        if self._absent == len(self._gpus):
            # With every GPU gone the library itself may be stale (driver reloaded, device cgroup applied again).
            self.close()
            raise RuntimeError("no GPU answers")
        for gpu in recovered:
            if not gpu.absent:
                gpu.confirm()
        if self._xids is not None and level > LEVELS["fast"]:
            self._xids.poll()
        if tick.rare and not self.outdated:
            self.outdated = self._changed()
        return [
            Row(position, tick.time + max(0.0, gpu.read_at - start), values[gpu.start : gpu.start + len(gpu.metrics)])
            for position, gpu in enumerate(self._gpus)
            if not gpu.absent
        ]

    def _judge(
        self, tick: Tick, level: int, incomplete: Sequence[tuple[Call, DriverError | None]], values: Sequence[float]
    ) -> None:
        """Separate GPUs that do not answer from GPUs that only lack a value; count the missing values."""
        for gpu in {planned.gpu for planned, _ in incomplete if not planned.gpu.absent}:
            verdict = gpu.judge(level, [error for planned, error in incomplete if planned.gpu is gpu and error is not None])
            if verdict is not None:
                gpu.lose(tick.elapsed, verdict)
        for planned, _ in incomplete:
            for _, place in planned.places if not planned.gpu.absent else ():
                metric = self._metrics[place]
                if metric is None or not isnan(values[place]) or LEVELS[metric.tier] > level:
                    continue
                if metric.name in planned.gpu.starting:
                    planned.gpu.starting.remove(metric.name)
                else:
                    self.blanks[place // self._width, metric.name] += 1
        if any(planned.gpu.absent for planned, _ in incomplete):
            self._make_plan()

    def _find_again(self, tick: Tick) -> list[NvmlGpu]:
        """Try the absent GPUs whose time has come; return those that are back."""
        due = [gpu for gpu in self._gpus if gpu.absent and tick.elapsed >= gpu.retry_at]
        if not due:
            return due
        try:
            self._open()
        except DriverError as error:
            self.failure = error
            for gpu in due:
                gpu.lose(tick.elapsed, error)
            return []
        self.failure = None
        for gpu in due:
            gpu.find_again(tick.elapsed)
            if not gpu.absent:
                self._watch(gpu.start // self._width, gpu.device)
        self._make_plan()
        return [gpu for gpu in due if not gpu.absent]

    def take_xids(self) -> Sequence[tuple[int, int]]:
        """Return and forget the Xid errors that the driver reported: (position of the device, code), in their order."""
        reported = tuple(self._reported)
        self._reported.clear()
        return reported

    def _changed(self) -> bool:
        """Whether there is a GPU that is not known, or another partition of one into instances."""
        try:
            now = list(find())
        except DriverError:
            return False
        answering = {device.uuid for device in now if device.instance is None}
        known = {uuid for uuid, parent in self._known.items() if parent in answering}
        return {device.uuid for device in now} != known or any(self._answers(device) for device in self._left_out)

    def _answers(self, left_out: NvmlDevice) -> bool:
        try:
            self._device(left_out.again())
        except DriverError:
            return False
        return True

    def _open(self) -> None:
        if not self._initialised:
            initialise()
            self._initialised = True

    def close(self) -> None:
        """Give the driver's library back, and all that was made of it."""
        if not self._initialised:
            return
        self._initialised = False
        for profiler in self._profilers.values():
            profiler.close()
        if self._xids is not None:
            self._xids.poll()  # what it says last is often why the GPU went
            self._xids.close()
        try:
            call(pynvml.nvmlShutdown)
        except DriverError as error:
            log.debug("%s", error)
        self._xids = None
