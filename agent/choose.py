"""Which source measures which GPU, and why."""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from epochcast.agent.config import AUTO, Config
from epochcast.agent.pci import driver_is_due
from epochcast.agent.sources import Device, Source, open_source
from epochcast.common.errors import InputError

log = logging.getLogger(__name__)

# What speaks for each source of GPUs, best first.
MERITS = {
    "gpm": "every metric at 10 Hz, straight from the driver",
    "dcgm": "profiling metrics at 10 Hz from NVIDIA's host engine",
    "dcgm-exporter": "profiling metrics, at the exporter's interval",
    "nvml": "utilisation, power and memory; before Hopper the driver itself has no profiling metrics",
}
# Sources that lack nothing: where one of them is active, another is no better (GPM is for Hopper and newer anyway).
FULL = ("gpm", "dcgm")
# The metric that shows whether a source has profiling metrics of a GPU.
PROFILING = "sm_active"


@dataclass(frozen=True)
class Choice:
    """The source of one device (``uuid``, ``label``, ``name`` as of `Device`).

    ``why``: what speaks for it. ``refused``: the better sources, each with the reason why it was not taken.
    """

    uuid: str
    label: str
    name: str
    source: str
    why: str
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def fallback(self) -> bool:
        """Whether it replaces a source with more metrics."""
        return bool(self.refused) and self.source not in FULL


Chosen = tuple[list[Source], list[Choice]]


def choose(config: Config, silent: Collection[str] = (), only: frozenset[str] | None = None) -> Chosen:
    """Open the sources that the settings ask for; ``auto`` takes the best for each GPU, the host where NVIDIA has no device.

    Where a process or cgroup is to be measured, the host comes on top.
    ``silent``: sources that ``auto`` is not to take, because they open and then say nothing. ``only``: UUIDs of the GPUs to
    read, None for all. Raises InputError when a source requested by name cannot work here, or no source of GPUs where there
    should be GPUs.
    """
    sources, choices = _choose(config, silent, only)
    if config.process_root is not None and not any(source.name == "host" for source in sources):
        try:
            sources.append(open_source("host", config))
        except InputError:
            for source in sources:
                source.close()
            raise
        choices += [_choice(device, "a process is to be measured", {}) for device in sources[-1].devices]
    return sources, choices


def _choose(config: Config, silent: Collection[str], only: frozenset[str] | None) -> Chosen:
    if config.chosen_source != AUTO:
        source = open_source(config.chosen_source, config, only)
        return [source], [_choice(device, "chosen by name", {}) for device in source.devices]
    refused = dict.fromkeys(silent, "it opens, but has delivered nothing for long")
    failure: InputError | None = None
    left: frozenset[str] | None = None  # nobody knows which GPUs there are
    try:
        nvml = open_source("nvml", config, only)
        nvml.close()
        left = frozenset(device.uuid for device in nvml.devices)
    except InputError as problem:
        failure = problem
        refused["nvml"] = str(problem)
    sources = _best_for_gpus(config, left, refused, silent)
    if sources:
        return sources, [
            _choice(device, MERITS[device.source], _better(device.source, refused))
            for source in sources
            for device in source.devices
        ]
    if only is not None or config.gpus or driver_is_due():
        raise failure or InputError(f"no source can read the GPUs: {'; '.join(refused.values())}")
    log.info("reading the host's own CPUs: %s", refused["nvml"])
    source = open_source("host", config)
    return [source], [_choice(device, "there is no NVIDIA GPU", refused) for device in source.devices]


def better_source_works(config: Config, choices: Iterable[Choice]) -> bool:
    """Whether a source that was refused gives profiling metrics of a GPU now (or, where only the host is read, any GPU)."""
    missed: dict[str, set[str]] = {}
    host_only = True
    for choice in choices:
        host_only &= choice.source == "host"
        for name in choice.refused if choice.fallback else ():
            missed.setdefault(name, set()).add(choice.uuid)
    for name, uuids in missed.items():
        try:
            source = open_source(name, config, None if host_only else frozenset(uuids))
        except InputError:
            continue
        works = host_only or bool(_profiled(source))
        source.close()
        if works:
            return True
    return False


def _best_for_gpus(
    config: Config, left: frozenset[str] | None, refused: dict[str, str], silent: Collection[str]
) -> list[Source]:
    """Open the best source for each of the GPUs ``left``; note in ``refused`` why a source was not taken (for some GPU)."""
    sources: list[Source] = []
    for name in MERITS:
        if name in silent or (name == "nvml" if left is None else not left):
            continue
        try:
            source = open_source(name, config, left)
            profiled = _profiled(source)
            without = [device for device in source.devices if device.uuid not in profiled]
            # Where NVML knows the GPUs, it measures those that have no profiling metrics anyway, and better.
            if without and left is not None and name != "nvml":
                refused[name] = without[0].unmeasured.get(PROFILING, f"it gives no {PROFILING} of {without[0].name}")
                source.close()
                if not profiled:
                    continue
                source = open_source(name, config, profiled)
        except InputError as problem:
            refused[name] = str(problem)
            continue
        sources.append(source)
        # Without NVML nobody knows which GPUs there are besides those of the first source that has any.
        left = frozenset() if left is None else left - {device.uuid for device in source.devices}
        if left and name not in refused:
            refused[name] = _why_not(name, config, left)
    return sources


def _why_not(name: str, config: Config, gpus: frozenset[str]) -> str:
    """Return why a source that works does not take these GPUs, in its own words."""
    try:
        open_source(name, config, gpus).close()
    except InputError as problem:
        return str(problem)
    return "it did not find this GPU at the start"


def _profiled(source: Source) -> frozenset[str]:
    """Return the UUIDs of the devices of which the source gives profiling metrics; a GPU counts with its MIG instances."""
    rich = {device.index for device in source.devices if any(metric.name == PROFILING for metric in device.metrics)}
    return frozenset(device.uuid for device in source.devices if device.index in rich)


def _better(source: str, refused: Mapping[str, str]) -> dict[str, str]:
    names = list(MERITS)
    return {name: refused[name] for name in names[: names.index(source)] if name in refused}


def _choice(device: Device, why: str, refused: Mapping[str, str]) -> Choice:
    return Choice(device.uuid, device.label, device.name, device.source, why, refused)
