"""DCGM's host engine through NVIDIA's own Python bindings, and the GPUs that it knows.

The bindings come with DCGM 3 and 4 and are on no package index; they are top-level modules (``pydcgm``, ``dcgm_agent``,
``dcgm_structs``, ``dcgm_fields``) in a folder of their own, imported only here and only when a DCGM source is opened. Fields go
by number: DCGM 4.6 renamed about a hundred of them.
"""

import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from epochcast.agent.config import Dcgm
from epochcast.agent.sources import Attribute
from epochcast.agent.sources.dcgm_values import FP64_BLANK, INT64_BLANK, PROFILING_FIELDS
from epochcast.agent.sources.mig import mig_uuid, mig_uuids
from epochcast.common.errors import InputError
from epochcast.dcgm_names import MHZ, MIB

log = logging.getLogger(__name__)

# Where DCGM 4's and DCGM 3's packages put their bindings.
PLACES = (Path("/usr/share/datacenter-gpu-manager-4/bindings/python3"), Path("/usr/local/dcgm/bindings/python3"))
CONNECT_TIMEOUT_MS = 3000
NAME_FIELD = 50  # of a GPU instance: its MIG profile, as in 1g.10gb
NVML_INDEX_FIELD = 52
UUID_FIELD = 54
COMPUTE_CAPABILITY_FIELD = 63
# Facts read once: DCGM field id → (attribute, base units per DCGM unit, whole where the attribute is).
STATIC_FIELDS = {
    90: ("bar1_total", MIB),  # MiB
    113: ("max_sm_clock", MHZ),  # MHz
    114: ("max_memory_clock", MHZ),  # MHz
    159: ("shutdown_temperature", 1.0),  # °C
    164: ("power_limit", 1.0),  # W
    238: ("pcie_link_width", 1),  # lanes
    250: ("memory_total", MIB),  # MiB
}


class Bindings(NamedTuple):
    """NVIDIA's modules; untyped, as they have no annotations."""

    pydcgm: Any
    agent: Any
    structs: Any
    fields: Any


class Entity(NamedTuple):
    """A GPU, or a MIG instance of one, as DCGM numbers it.

    ``group``, ``id``: DCGM's entity group (DCGM_FE_GPU or DCGM_FE_GPU_I) and number in it. ``gpu``: DCGM's number of the GPU
    or of the instance's parent; ``nvml_index``: NVML's. ``driver``: version. ``instance``: NVML's GPU instance id.
    """

    group: int
    id: int
    gpu: int
    nvml_index: int
    uuid: str
    name: str
    driver: str
    instance: int | None = None


class HostEngine:
    """One connection to a host engine, or the engine within this process, shared by all who use it here.

    DCGM wants no second connection of a process, and cannot run a second engine in it. ``connection``: the bindings'
    ``DcgmHandle``; ``handle``: what their plain functions want instead of it. ``error``: what both raise. ``users``: how
    many hold it. ``lost``: set by a user who found it dead, so that nobody else is given it.
    """

    def __init__(self, settings: Dcgm, bindings: Bindings) -> None:
        self.bindings = bindings
        self.error: type[Exception] = bindings.structs.DCGMError
        self.users = 0
        try:
            self.connection = bindings.pydcgm.DcgmHandle(**_where(settings))
        except self.error as error:
            raise InputError(_refusal(settings, bindings, error)) from error
        self.handle = self.connection.handle
        self.lost = False

    def release(self) -> None:
        """Count one user less; the last one closes the connection."""
        with _lock:
            self.users -= 1
            if self.users:
                return
            for settings in [settings for settings, engine in _engines.items() if engine is self]:
                del _engines[settings]
        try:
            self.connection.Shutdown()
        except self.error as error:
            log.debug("closing the connection to DCGM: %s", error)
            # Else its destructor would try again, fail again and print a traceback.
            self.connection._handleCreated = False

    def is_gone(self, error: Exception) -> bool:
        """Whether an error of the bindings says that the connection is lost."""
        return bool(getattr(error, "value", None) == self.bindings.structs.DCGM_ST_CONNECTION_NOT_VALID)

    def entities(self) -> list[Entity]:
        """Return the GPUs that DCGM supports here, in its order, then their MIG instances."""
        gpus = self._gpus()
        return [*gpus, *self._instances(gpus)]

    def _gpus(self) -> list[Entity]:
        discovery, kind = self.connection.GetSystem().discovery, self.bindings.fields.DCGM_FE_GPU
        numbered = [Entity(kind, gpu, gpu, gpu, "", "", "") for gpu in discovery.GetAllSupportedGpuIds()]
        live = self.live_values(numbered, [NVML_INDEX_FIELD, UUID_FIELD, NAME_FIELD])
        gpus = []
        for entity in numbered:
            values = live[entity]
            uuid, name, driver = str(values.get(UUID_FIELD, "")), str(values.get(NAME_FIELD, "unknown")), ""
            try:
                identifiers = discovery.GetGpuAttributes(entity.id).identifiers
            except self.error as error:
                if self.is_gone(error):
                    raise
                log.debug("DCGM does not report the attributes of its GPU %d: %s", entity.id, error)
            else:
                uuid, name = _text(identifiers.uuid) or uuid, _text(identifiers.deviceName) or name
                driver = _text(identifiers.driverVersion)
            if not uuid:
                log.warning("DCGM does not report the UUID of its GPU %d, which is skipped", entity.id)
                continue
            index = int(values.get(NVML_INDEX_FIELD, entity.id))
            gpus.append(entity._replace(nvml_index=index, uuid=uuid, name=name, driver=driver))
        return gpus

    def _instances(self, gpus: Sequence[Entity]) -> list[Entity]:
        try:
            hierarchy = self.bindings.agent.dcgmGetGpuInstanceHierarchy(self.handle)
        except self.error as error:
            log.debug("DCGM reports no MIG instances: %s", error)
            return []
        parents = {gpu.id: gpu for gpu in gpus}
        uuids = mig_uuids() if hierarchy.count else {}
        instances = []
        for i in range(hierarchy.count):
            item = hierarchy.entityList[i]
            parent = parents.get(item.parent.entityId)
            # The list goes on with compute instances, whose parents are GPU instances.
            if item.entity.entityGroupId == self.bindings.fields.DCGM_FE_GPU_I and parent is not None:
                instance = int(item.info.nvmlInstanceId)
                instances.append(
                    parent._replace(
                        group=int(item.entity.entityGroupId),
                        id=int(item.entity.entityId),
                        uuid=mig_uuid(uuids, parent.uuid, instance),
                        name=f"{parent.name} MIG",
                        instance=instance,
                    )
                )
        profiles = self.live_values(instances, [NAME_FIELD])
        return [
            entity._replace(name=f"{entity.name} {profiles[entity][NAME_FIELD]}") if profiles[entity] else entity
            for entity in instances
        ]

    def update(self) -> None:
        """Have newly watched fields read at once."""
        try:
            self.connection.GetSystem().UpdateAllFields(True)
        except self.error as error:
            if self.is_gone(error):
                raise
            log.debug("DCGM cannot read values immediately: %s", error)  # then at the next interval

    def profiling_fields(self, gpu: int) -> tuple[frozenset[int], str]:
        """Return the profiling fields (1001 and up) that DCGM can measure on a GPU, and why none where there are none."""
        structs = self.bindings.structs
        try:
            answer = self.bindings.agent.dcgmProfGetSupportedMetricGroups(self.handle, gpu)
        except self.error as error:
            value = getattr(error, "value", None)
            if value == structs.DCGM_ST_MODULE_NOT_LOADED:
                return frozenset(), (
                    "DCGM's profiling module is not loaded; "
                    "before Hopper it comes with the package datacenter-gpu-manager-4-proprietary"
                )
            if value in (structs.DCGM_ST_NOT_SUPPORTED, structs.DCGM_ST_PROFILING_NOT_SUPPORTED):
                return frozenset(), f"DCGM cannot profile this GPU: {error}"
            # It does not say no: let the watch find out, field by field.
            return frozenset(PROFILING_FIELDS), ""
        groups = [answer.metricGroups[i] for i in range(answer.numMetricGroups)]
        supported = frozenset(int(group.fieldIds[i]) for group in groups for i in range(group.numFieldIds))
        return supported, "DCGM's profiling does not support it on this GPU"

    def static(self, entity: Entity) -> Mapping[str, Attribute]:
        """Return DCGM's static attributes of a GPU; empty for a MIG instance, whose parent has them."""
        if entity.instance is not None:
            return {}
        values = self.live_values([entity], [COMPUTE_CAPABILITY_FIELD, *STATIC_FIELDS])[entity]
        facts: dict[str, float | int | str] = {"driver_version": entity.driver} if entity.driver else {}
        if COMPUTE_CAPABILITY_FIELD in values:  # major << 16 | minor
            major, minor = divmod(int(values[COMPUTE_CAPABILITY_FIELD]), 1 << 16)
            facts["compute_capability"] = f"{major}.{minor}"
        for field, (name, scale) in STATIC_FIELDS.items():
            if field in values:
                facts[name] = type(scale)(values[field] * scale)
        return {name: Attribute(value, "dcgm") for name, value in facts.items()}

    def live_values(self, entities: Sequence[Entity], fields: Sequence[int]) -> dict[Entity, dict[int, Any]]:
        """Return the values of ``fields`` now, watched or not; blanks and what DCGM cannot read live are left out."""
        values: dict[Entity, dict[int, Any]] = {entity: {} for entity in entities}
        if not entities:
            return values
        structs = self.bindings.structs
        pairs = [structs.c_dcgmGroupEntityPair_t(entity.group, entity.id) for entity in entities]
        try:
            answer = self.bindings.agent.dcgmEntitiesGetLatestValues(self.handle, pairs, fields, structs.DCGM_FV_FLAG_LIVE_DATA)
        except self.error as error:
            log.debug("DCGM does not read fields %s live: %s", fields, error)
            return values
        owners = {(entity.group, entity.id): entity for entity in entities}
        for field in answer:
            owner = owners.get((int(field.entityGroupId), int(field.entityId)))
            value = _value(field) if field.status == structs.DCGM_ST_OK else None
            if owner is not None and value is not None:
                values[owner][int(field.fieldId)] = value
        return values


_lock = threading.Lock()
_engines: dict[Dcgm, HostEngine] = {}


def connect(settings: Dcgm) -> HostEngine:
    """Return the connection that ``settings`` describe, for the caller to release; raise InputError when there is none.

    A host engine that does not answer costs three seconds.
    """
    with _lock:
        engine = _engines.get(settings)
        if engine is None or engine.lost:
            engine = _engines[settings] = HostEngine(settings, load_bindings(settings.bindings))
        engine.users += 1
        return engine


def load_bindings(folder: Path | None) -> Bindings:
    """Import NVIDIA's modules from ``folder``; None: from $DCGM_BINDINGS, else from where DCGM's packages put them.

    Raises InputError when they are not there or cannot be imported.
    """
    place = next(_folders(folder), None)
    if place is None and find_spec("pydcgm") is None:
        tried = ", ".join(map(str, PLACES))
        raise InputError(
            f"source 'dcgm' finds no DCGM Python bindings (pydcgm.py) in {tried}; "
            "install DCGM (datacenter-gpu-manager-4-core), or name their folder with dcgm.bindings or $DCGM_BINDINGS"
        )
    if place is not None and str(place) not in sys.path:
        sys.path.append(str(place))  # never in front: its modules have names like ``common`` and ``logger``
    try:
        return Bindings(*map(import_module, ("pydcgm", "dcgm_agent", "dcgm_structs", "dcgm_fields")))
    except Exception as error:  # foreign code: if it raises, the agent continues without it
        raise InputError(
            f"the DCGM Python bindings in {place or 'the Python path'} cannot be imported ({type(error).__name__}: {error}); "
            "reinstall DCGM, or name another folder with dcgm.bindings"
        ) from error


def _folders(folder: Path | None) -> Iterator[Path]:
    """Yield the folders that hold the bindings, best first."""
    named = folder or (Path(os.environ["DCGM_BINDINGS"]) if os.environ.get("DCGM_BINDINGS") else None)
    if named is None:
        yield from (place for place in PLACES if (place / "pydcgm.py").is_file())
    elif (named / "pydcgm.py").is_file():
        yield named
    else:
        setting = "dcgm.bindings" if folder else "$DCGM_BINDINGS"
        raise InputError(f"{setting} names {named}, which has no pydcgm.py; name the folder of DCGM's Python bindings")


def _where(settings: Dcgm) -> dict[str, Any]:
    if settings.embedded:
        return {}
    if settings.address.startswith("unix:"):
        return {"unixSocketPath": settings.address.removeprefix("unix:"), "timeoutMs": CONNECT_TIMEOUT_MS}
    return {"ipAddress": settings.address, "timeoutMs": CONNECT_TIMEOUT_MS}


def _refusal(settings: Dcgm, bindings: Bindings, error: Exception) -> str:
    if getattr(error, "value", None) == bindings.structs.DCGM_ST_LIBRARY_NOT_FOUND:
        return (
            f"source 'dcgm' has DCGM's Python bindings ({bindings.structs.__file__}) but not its library of the same version, "
            f"libdcgm.so ({error}); install datacenter-gpu-manager-4-core, or name the other version's bindings"
        )
    if settings.embedded:
        return (
            f"the DCGM host engine does not start within the agent ({error}); before Hopper that needs root: "
            "run nv-hostengine (systemctl start nvidia-dcgm) and set dcgm.embedded = false"
        )
    return (
        f"the DCGM host engine at {settings.address} does not answer ({error}); start it (systemctl start nvidia-dcgm), "
        "or set dcgm.address to its address"
    )


def _value(field: Any) -> float | int | str | None:
    """Return the value of a ``c_dcgmFieldValue_v2`` by its own type, None for a blank or a type that is none of these."""
    kind = chr(field.fieldType)
    if kind == "d":
        return float(field.value.dbl) if field.value.dbl < FP64_BLANK else None
    if kind in "it":
        return int(field.value.i64) if field.value.i64 < INT64_BLANK else None
    text = _text(field.value.str) if kind == "s" else ""
    return text if text and not text.startswith("<<<") else None


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value  # bytes in the bindings of early DCGM 3
