# ruff: noqa: N802
"""Stand-in for DCGM's module of this name: the classes that the agent uses, with their true signatures."""

from typing import Any

import dcgm_agent
import dcgm_structs
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
            raise dcgm_structs.DCGMError(dcgm_structs.DCGM_ST_LIBRARY_NOT_FOUND)
        engine.where = {"ipAddress": ipAddress, "unixSocketPath": unixSocketPath, "timeoutMs": timeoutMs}
        embedded = ipAddress is None and unixSocketPath is None
        connect = dcgm_agent.dcgmStartEmbedded(opMode) if embedded else dcgm_agent.dcgmConnect_v2(str(ipAddress), None)
        self.handle: Any = connect
        self._handleCreated = True

    def __del__(self) -> None:
        if self._handleCreated:
            self.Shutdown()

    def GetSystem(self) -> "DcgmSystem":
        return DcgmSystem(self)

    def Shutdown(self) -> None:
        if self._handleCreated:
            dcgm_agent.dcgmDisconnect(self.handle)
            self._handleCreated = False


class DcgmSystemDiscovery:
    def __init__(self, dcgmHandle: DcgmHandle) -> None:
        self._dcgmHandle = dcgmHandle

    def GetAllSupportedGpuIds(self) -> list[int]:
        return dcgm_agent.dcgmGetAllSupportedDevices(self._dcgmHandle.handle)

    def GetGpuAttributes(self, gpuId: int) -> Any:
        return dcgm_agent.dcgmGetDeviceAttributes(self._dcgmHandle.handle, gpuId)


class DcgmSystem:
    def __init__(self, dcgmHandle: DcgmHandle) -> None:
        self._dcgmHandle = dcgmHandle
        self.discovery = DcgmSystemDiscovery(dcgmHandle)

    def UpdateAllFields(self, waitForUpdate: bool) -> None:
        dcgm_agent.dcgmUpdateAllFields(self._dcgmHandle.handle, waitForUpdate)


class DcgmFieldGroup:
    groups: dict[int, "DcgmFieldGroup"] = {}  # noqa: RUF012

    def __init__(self, dcgmHandle: DcgmHandle, name: str = "", fieldIds: list[int] | None = None) -> None:
        self._dcgmHandle = dcgmHandle
        self.fieldGroupId = dcgm_agent.dcgmFieldGroupCreate(dcgmHandle.handle, fieldIds or [], name)
        DcgmFieldGroup.groups[self.fieldGroupId] = self

    def Delete(self) -> None:
        if DcgmFieldGroup.groups.pop(self.fieldGroupId, None) is not None:
            dcgm_agent.dcgmFieldGroupDestroy(self._dcgmHandle.handle, self.fieldGroupId)


class DcgmGroupSamples:
    def __init__(self, dcgmHandle: DcgmHandle, groupId: int) -> None:
        self._dcgmHandle = dcgmHandle
        self._groupId = groupId

    def WatchFields(self, fieldGroup: DcgmFieldGroup, updateFreq: int, maxKeepAge: float, maxKeepSamples: int) -> None:
        dcgm_agent.dcgmWatchFields(
            self._dcgmHandle.handle, self._groupId, fieldGroup.fieldGroupId, updateFreq, maxKeepAge, maxKeepSamples
        )

    def UnwatchFields(self, fieldGroup: DcgmFieldGroup) -> None:
        dcgm_agent.dcgmUnwatchFields(self._dcgmHandle.handle, self._groupId, fieldGroup.fieldGroupId)


class DcgmGroup:
    def __init__(
        self, dcgmHandle: DcgmHandle, groupId: int | None = None, groupName: str | None = None, groupType: int = 1
    ) -> None:
        self._dcgmHandle = dcgmHandle
        self._groupId = dcgm_agent.dcgmGroupCreate(dcgmHandle.handle, groupType, str(groupName))
        self.samples = DcgmGroupSamples(dcgmHandle, self._groupId)

    def AddEntity(self, entityGroupId: int, entityId: int) -> None:
        dcgm_agent.dcgmGroupAddEntity(self._dcgmHandle.handle, self._groupId, entityGroupId, entityId)

    def Delete(self) -> None:
        dcgm_agent.dcgmGroupDestroy(self._dcgmHandle.handle, self._groupId)

    def GetId(self) -> int:
        return self._groupId
