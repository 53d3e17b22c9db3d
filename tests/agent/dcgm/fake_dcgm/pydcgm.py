# ruff: noqa: N802
"""Stand-in for DCGM's module of this name: the classes that the agent uses, with their true signatures."""

from types import SimpleNamespace
from typing import Any

import dcgm_structs as structs
from host_engine import engine


class DcgmHandle:
    def __init__(
        self,
        handle: Any = None,
        ipAddress: str | None = None,
        opMode: int = 1,
        persistAfterDisconnect: bool = False,
        unixSocketPath: str | None = None,
        timeoutMs: int = 0,
    ) -> None:
        self._handleCreated = False
        if not engine.library:
            raise structs.DCGMError(structs.DCGM_ST_LIBRARY_NOT_FOUND)
        engine.where = {"ipAddress": ipAddress, "unixSocketPath": unixSocketPath, "timeoutMs": timeoutMs}
        self.handle: Any = engine.connect()
        self._handleCreated = True

    def __del__(self) -> None:
        if self._handleCreated:
            self.Shutdown()

    def GetSystem(self) -> "DcgmSystem":
        return DcgmSystem(self)

    def Shutdown(self) -> None:
        if self._handleCreated:
            engine.connections.remove(self.handle)
            engine.check(self.handle)
            self._handleCreated = False


class DcgmSystem:
    """The system, and its own ``discovery``."""

    def __init__(self, dcgmHandle: DcgmHandle) -> None:
        self._handle = dcgmHandle.handle
        self.discovery = self

    def UpdateAllFields(self, waitForUpdate: bool) -> None:
        engine.check(self._handle)
        engine.update()

    def GetAllSupportedGpuIds(self) -> list[int]:
        engine.check(self._handle)
        return list(engine.gpus)

    def GetGpuAttributes(self, gpuId: int) -> Any:
        engine.check(self._handle)
        identifiers = SimpleNamespace(uuid=engine.gpus[gpuId], deviceName="NVIDIA A100", driverVersion=b"550.54")
        return SimpleNamespace(identifiers=identifiers)


class DcgmFieldGroup:
    groups: dict[int, "DcgmFieldGroup"] = {}  # noqa: RUF012

    def __init__(self, dcgmHandle: DcgmHandle, name: str = "", fieldIds: list[int] | None = None) -> None:
        self._handle = dcgmHandle.handle
        engine.check(self._handle)
        if any(other == name for other, _ in engine.field_groups.values()):
            raise structs.DCGMError(structs.DCGM_ST_DUPLICATE_KEY)
        if engine.unknown_fields & set(fieldIds or []):
            raise structs.DCGMError(structs.DCGM_ST_UNKNOWN_FIELD)
        self.fieldGroupId = max(engine.field_groups, default=0) + 1
        engine.field_groups[self.fieldGroupId] = name, list(fieldIds or [])
        DcgmFieldGroup.groups[self.fieldGroupId] = self

    def Delete(self) -> None:
        if DcgmFieldGroup.groups.pop(self.fieldGroupId, None) is not None:
            engine.check(self._handle)
            engine.watches = [watch for watch in engine.watches if watch.fields != self.fieldGroupId]
            del engine.field_groups[self.fieldGroupId]


class DcgmGroup:
    """A group, and its own ``samples``."""

    def __init__(
        self, dcgmHandle: DcgmHandle, groupId: int | None = None, groupName: str | None = None, groupType: int = 1
    ) -> None:
        self._handle = dcgmHandle.handle
        engine.check(self._handle)
        self._groupId = len(engine.groups) + 2
        engine.groups[self._groupId], engine.group_types[self._groupId] = engine.entities(groupType), groupType
        self.samples = self

    def AddEntity(self, entityGroupId: int, entityId: int) -> None:
        engine.check(self._handle)
        engine.groups[self._groupId].append((entityGroupId, entityId))

    def Delete(self) -> None:
        engine.check(self._handle)
        engine.watches = [watch for watch in engine.watches if watch.group != self._groupId]
        engine.groups[self._groupId] = []

    def GetId(self) -> int:
        return self._groupId

    def WatchFields(self, fieldGroup: DcgmFieldGroup, updateFreq: int, maxKeepAge: float, maxKeepSamples: int) -> None:
        engine.check(self._handle)
        engine.watch(self._groupId, fieldGroup.fieldGroupId, updateFreq, maxKeepAge)

    def UnwatchFields(self, fieldGroup: DcgmFieldGroup) -> None:
        engine.check(self._handle)
        ended = (self._groupId, fieldGroup.fieldGroupId)
        engine.watches = [watch for watch in engine.watches if (watch.group, watch.fields) != ended]
