"""What the agent reads now: its sources, their samplers and stores; reopened when the node or the settings change."""

import gc
import logging
import math
import threading
from collections.abc import Collection, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from epochcast.agent import real_time
from epochcast.agent.choose import Choice, Chosen, better_source_works, choose
from epochcast.agent.config import AUTO, Config
from epochcast.agent.pci import count_gpus, driver_is_due
from epochcast.agent.sampler import Sampler, SystemClock
from epochcast.agent.sources import Attribute, Device, Source
from epochcast.agent.static import complete
from epochcast.agent.store import DeviceStore
from epochcast.common.errors import InputError

log = logging.getLogger(__name__)

# A driver call that hangs must not keep the agent from going on.
LONGEST_STOP_S = 5.0
# A driver that has not answered for so long hangs: the GPU is left out until it does, and sources that open are taken then.
LONGEST_CALL_S = 10.0  # before systemd's watchdog (30 s) ends all
# Where a program between the driver and us says nothing for so long, another source may know more. The driver's own sources are
# not left: without the driver no other works, and they try again by themselves.
RELAYS = ("dcgm", "dcgm-exporter")
# Sources whose devices are not this machine's GPUs.
NO_GPUS = ("host", "replay")
SILENCE_S = 30.0
# Seconds until a better source is tried again; they double each time that it does not work.
FIRST_RETRY_S = 60.0
# The same while nothing can be read at all.
DRIVER_RETRY_S = 15.0
LONGEST_RETRY_S = 600.0


class Node:
    """The devices of this machine, each read by the best source that works (or the requested one).

    ``samplers``: one per source, each with a thread of its own, so that a source that hangs stalls no other. ``choices``: the
    source of each device and why. ``failure``: why there is no source, None where there is. ``clock``: for moments of the same
    monotonic clock as the samplers'. Raises InputError where nothing can be read, unless this machine has GPUs to wait for.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.clock = SystemClock()
        self.choices: tuple[Choice, ...] = ()
        # One assignment changes both: HTTP threads read them at any time.
        self._present: tuple[tuple[Sampler, ...], list[DeviceStore]] = ((), [])
        # What must be closed yet, each with its thread once that was started.
        self._open: dict[Sampler, threading.Thread | None] = {}
        self._static: Mapping[str, Mapping[str, Attribute]] = {}
        self._retry_at = math.inf
        self._retry_after = FIRST_RETRY_S
        self.failure: InputError | None = None
        self._on_bus = count_gpus()
        self._opening: tuple[object, SimpleQueue[Chosen | Exception]] | None = None
        # By thread that hangs in the driver: the GPU that does not answer.
        self._hanging: dict[threading.Thread, str] = {}
        try:
            sources, choices = self._open_sources(config)
        except InputError as problem:
            if config.chosen_source in NO_GPUS or not (config.gpus or driver_is_due()):
                raise
            self._wait_for_driver(problem)
        else:
            self._adopt(sources, choices)

    @property
    def samplers(self) -> tuple[Sampler, ...]:
        """One per source that is open."""
        return self._present[0]

    @property
    def stores(self) -> list[DeviceStore]:
        """The stores of all devices, also of those that are gone but whose samples are still kept."""
        samplers, gone = self._present
        return [store for sampler in samplers for store in sampler.stores] + gone

    @property
    def sources(self) -> dict[str, Source]:
        """The source of each device that is read now, by the device's UUID."""
        return {store.device.uuid: sampler.source for sampler in self.samplers for store in sampler.stores}

    @property
    def finished(self) -> bool:
        """Whether all that is read are replays that have ended."""
        return bool(self.samplers) and all(sampler.finished for sampler in self.samplers)

    @property
    def last_sample_time(self) -> float | None:
        """Unix seconds of the newest sample of any device, None before the first."""
        times = [sampler.last_sample_time for sampler in self.samplers if sampler.last_sample_time is not None]
        return max(times, default=None)

    @property
    def expected(self) -> int | None:
        """GPUs that there should be: as the settings say, else as the PCI bus shows or the driver counts; None: unknown."""
        if self.config.chosen_source in NO_GPUS:
            return None
        counted = max((sampler.source.counted for sampler in self.samplers), default=0)
        return self.config.gpus or max(self._on_bus or 0, counted) or None

    @property
    def driver_failure(self) -> tuple[str, str] | None:
        """Code (of NVML, empty where there is none) and reason if the driver as a whole does not answer."""
        failures: list[Exception | None] = [self.failure, *(sampler.source.failure for sampler in self.samplers)]
        for failure in failures:
            if failure is not None:
                cause = failure.__cause__ if isinstance(failure, InputError) and failure.__cause__ else failure
                return str(getattr(cause, "code", "")), getattr(cause, "reason", str(failure))
        return None

    @property
    def present(self) -> int:
        """GPUs that give samples now, or whose instances do."""
        return len({store.device.index for store in self.stores if store.device.source not in NO_GPUS and self.hears(store)})

    def hears(self, store: DeviceStore) -> bool:
        """Whether a device gives samples now."""
        source = self.sources.get(store.device.uuid)
        return source is not None and self.clock.monotonic() - store.heard_at <= source.silent_after

    def static(self, uuid: str) -> Mapping[str, Attribute]:
        """Return the static attributes of a device; those that take seconds to read come a little later than its samples."""
        if uuid in self._static:
            return self._static[uuid]
        return next((store.device.static for store in self.stores if store.device.uuid == uuid), {})

    def ticks_since(self, moment: float) -> bool:
        """Whether every sampler that reads the driver itself has ticked since that moment of the monotonic clock.

        A relay that hangs is left for another source, which starting the agent again would not do.
        """
        return all(
            sampler.finished or sampler.source.name in RELAYS or sampler.last_tick >= moment for sampler in self.samplers
        )

    def start(self) -> None:
        """Start sampling."""
        for sampler in self._open:
            thread = threading.Thread(target=_sample, args=(sampler,), name=f"sampler {sampler.source.name}", daemon=True)
            self._open[sampler] = thread
            thread.start()
        devices = [store.device for store in self.stores if not store.device.simulated and store.device.source != "host"]
        if devices:
            threading.Thread(target=self._read_static, args=(devices,), name="static", daemon=True).start()

    def stop(self) -> None:
        """Stop sampling and close the sources; what hangs in a driver is left to the end of the process."""
        for sampler in self._open:
            sampler.clock.stop()
        for sampler, thread in self._open.items():
            if thread is not None and thread not in self._hanging:
                thread.join(timeout=LONGEST_STOP_S)
            if thread is None or not thread.is_alive():
                closing = threading.Thread(target=sampler.source.close, daemon=True)  # the driver may hang here too
                closing.start()
                closing.join(timeout=LONGEST_STOP_S)
            sampler.settle()
        self._open = {}

    def leave_real_time(self) -> None:
        """Make the threads that sample ordinary ones, until the sources are reopened."""
        for thread in self._open.values():
            if thread is not None and thread.native_id is not None:
                real_time.leave(thread.native_id)

    def reopen(self, config: Config, silent: Collection[str] = ()) -> None:
        """Reopen the sources with these settings and go on sampling; samples of devices that stay are kept.

        ``silent``: sources that said nothing lately and are not to be chosen. Where the settings' source cannot be opened, the
        devices stay known and silent, and it is tried again later.
        """
        self.stop()
        self.config = config
        try:
            sources, choices = self._open_sources(config, silent)
        except InputError as problem:
            self._wait_for_driver(problem)
            return
        self._adopt(sources, choices)
        # What the old sources leave behind refers to itself; left to the collector's own pace it grew to 15 MB.
        gc.collect()
        self.start()

    def supervise(self) -> None:
        """Reopen the sources if the node changed: a GPU was added or is back, a source died, a better one works.

        Called about once a second.
        """
        now = self.clock.monotonic()
        if self._look_for_hanging_calls(now):
            self.reopen(self.config)
        outdated = [sampler.source.name for sampler in self.samplers if sampler.source.outdated]
        if outdated:
            log.warning("the devices of source %s changed; reopening the sources", ", ".join(outdated))
            self.reopen(self.config)
        elif silent := self._silent(now):
            log.warning("source %s has delivered nothing for long; reopening the sources without it", ", ".join(silent))
            self.reopen(self.config, silent)
        elif now >= self._retry_at:
            if not self.samplers or better_source_works(self.config, self.choices):
                self.reopen(self.config)
            else:
                self._retry_later()

    def _look_for_hanging_calls(self, now: float) -> bool:
        """Whether a call to the driver hangs, or one that hung has returned: then the sources are to be opened again."""
        returned = [thread for thread in self._hanging if not thread.is_alive()]
        for thread in returned:
            log.warning("GPU %s answers again", self._hanging.pop(thread))
        hanging = {
            thread: sampler.source.asking
            for sampler, thread in self._open.items()
            if thread is not None and sampler.source.asking is not None and now - sampler.last_tick > LONGEST_CALL_S
        }
        for uuid in hanging.values():
            log.error("GPU %s hangs: a call to the driver has not returned for %.0f s; leaving it out", uuid, LONGEST_CALL_S)
        self._hanging |= hanging
        return bool(returned or hanging)

    def _open_sources(self, config: Config, silent: Collection[str] = ()) -> Chosen:
        """Choose sources, as `choose` does, but give up after `LONGEST_CALL_S`: the driver may hang."""
        only = None
        if hanging := set(self._hanging.values()):
            only = frozenset(store.device.uuid for store in self.stores) - hanging
        question = (config, tuple(silent), only)
        if self._opening is None or self._opening[0] != question:
            answer: SimpleQueue[Chosen | Exception] = SimpleQueue()
            self._opening = question, answer
            threading.Thread(target=_choose_into, args=(answer, *question), name="opening", daemon=True).start()
        try:
            chosen = self._opening[1].get(timeout=LONGEST_CALL_S)
        except Empty as error:
            raise InputError(f"the driver has not answered for {LONGEST_CALL_S:g} s; see nvidia-smi and dmesg") from error
        self._opening = None
        if isinstance(chosen, Exception):
            raise chosen
        return chosen

    def _silent(self, now: float) -> list[str]:
        """Return the sources that say nothing for long, where others could be chosen."""
        if self.config.chosen_source != AUTO:
            return []
        return [
            sampler.source.name
            for sampler in self.samplers
            if sampler.source.name in RELAYS
            and now - max(sampler.started, *(store.heard_at for store in sampler.stores))
            > max(SILENCE_S, sampler.source.silent_after)
        ]

    def _wait_for_driver(self, problem: InputError) -> None:
        """Keep the devices known and silent, and look again soon: somebody repairs the driver, and waits for us."""
        if str(problem) != str(self.failure):
            log.error("no source can be opened: %s; trying again every %.0f s", problem, DRIVER_RETRY_S)
        self.failure = problem
        self._present = ((), self.stores)
        self._retry_at = self.clock.monotonic() + DRIVER_RETRY_S

    def _retry_later(self) -> None:
        self._retry_at = self.clock.monotonic() + self._retry_after
        self._retry_after = min(2 * self._retry_after, LONGEST_RETRY_S)

    def _adopt(self, sources: Sequence[Source], choices: Sequence[Choice]) -> None:
        before = {store.device.uuid: store for store in self.stores}
        samplers_before = {sampler.source.name: sampler for sampler in self.samplers}
        samplers = []
        for source in sources:
            capacity = source.recorded_rows or math.ceil(self.config.retention / source.interval) * source.rows_per_interval
            stores = [DeviceStore(device, capacity, self.config.window) for device in source.devices]
            for store in stores:
                if store.device.uuid in before:
                    store.take_over(before.pop(store.device.uuid))
            sampler = Sampler(source, stores, SystemClock(), self.config.tick_budget)
            if source.name in samplers_before:
                sampler.take_over(samplers_before[source.name])
            samplers.append(sampler)
        # A GPU that is gone is missed until it is back or the agent starts again. The host, which only stands in for GPUs, is
        # not; nor is a MIG instance whose GPU is there: somebody took it away.
        indices = {device.index for source in sources for device in source.devices}
        gone = [
            store
            for store in before.values()
            if store.device.source not in NO_GPUS and (store.device.instance is None or store.device.index not in indices)
        ]
        self._open = dict.fromkeys(samplers)
        self._present, self.choices, self.failure = (tuple(samplers), gone), tuple(choices), None
        if any(choice.fallback for choice in choices):
            self._retry_later()
        else:
            # The pause stays as long as it has become: a relay that opens and says nothing would be tried every minute.
            self._retry_at = math.inf
        for choice in choices:
            log.info("%s %s (%s): source %s, %s", choice.label, choice.name, choice.uuid, choice.source, choice.why)

    def _read_static(self, devices: Sequence[Device]) -> None:
        self._static = complete(devices)


def _choose_into(answer: "SimpleQueue[Chosen | Exception]", *question: Any) -> None:
    try:
        answer.put(choose(*question))
    except Exception as error:
        answer.put(error)


def _sample(sampler: Sampler) -> None:
    real_time.enter()
    sampler.run()
