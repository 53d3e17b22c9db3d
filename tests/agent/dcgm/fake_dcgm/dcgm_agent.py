# ruff: noqa: N802
"""Stand-in for DCGM's module of this name: the calls that the agent makes, with their true signatures."""

from ctypes import addressof
from typing import Any

import dcgm_structs as structs
from host_engine import FE_GPU, FE_GPU_I, STORE_DELAY_US, engine


def dcgmGetAllSupportedDevices(dcgm_handle: Any) -> list[int]:
    engine.check(dcgm_handle, "dcgmGetAllSupportedDevices")
    return list(engine.gpus)


def dcgmGetDeviceAttributes(dcgm_handle: Any, gpuId: int, version: int = 3) -> Any:
    engine.check(dcgm_handle, "dcgmGetDeviceAttributes")
    attributes = structs.c_dcgmDeviceAttributes_v3(version=version)
    attributes.identifiers.uuid = engine.gpus[gpuId].encode()
    attributes.identifiers.deviceName = b"NVIDIA A100"
    attributes.identifiers.driverVersion = b"550.54"
    return attributes


def dcgmGetGpuInstanceHierarchy(dcgm_handle: Any) -> Any:
    engine.check(dcgm_handle, "dcgmGetGpuInstanceHierarchy")
    if not engine.instances:
        raise structs.DCGMError(structs.DCGM_ST_NOT_SUPPORTED)
    hierarchy = structs.c_dcgmMigHierarchy_v2(count=2 * len(engine.instances))
    for i, (entity, (gpu, instance, _)) in enumerate(engine.instances.items()):
        item, compute = hierarchy.entityList[2 * i], hierarchy.entityList[2 * i + 1]
        item.entity.entityGroupId, item.entity.entityId = FE_GPU_I, entity
        item.parent.entityGroupId, item.parent.entityId = FE_GPU, gpu
        item.info.gpuUuid, item.info.nvmlInstanceId = engine.gpus[gpu].encode(), instance
        compute.entity.entityGroupId, compute.entity.entityId = 5, entity
        compute.parent.entityGroupId, compute.parent.entityId = FE_GPU_I, entity
    return hierarchy


def dcgmGroupCreate(dcgm_handle: Any, type: int, groupName: str) -> int:
    engine.check(dcgm_handle, "dcgmGroupCreate")
    group = len(engine.groups) + 2
    engine.groups[group], engine.group_types[group] = engine.entities(type), type
    return group


def dcgmGroupAddEntity(dcgm_handle: Any, group_id: int, entityGroupId: int, entityId: int) -> int:
    engine.check(dcgm_handle, "dcgmGroupAddEntity")
    engine.groups[group_id].append((entityGroupId, entityId))
    return structs.DCGM_ST_OK


def dcgmGroupDestroy(dcgm_handle: Any, group_id: int) -> int:
    engine.check(dcgm_handle, "dcgmGroupDestroy")
    engine.watches = [watch for watch in engine.watches if watch.group != group_id]
    engine.groups[group_id] = []
    return structs.DCGM_ST_OK


def dcgmFieldGroupCreate(dcgm_handle: Any, fieldIds: list[int], fieldGroupName: str) -> int:
    engine.check(dcgm_handle, "dcgmFieldGroupCreate")
    if any(name == fieldGroupName for name, _ in engine.field_groups.values()):
        raise structs.DCGMError(structs.DCGM_ST_DUPLICATE_KEY)
    if engine.unknown_fields & set(fieldIds):
        raise structs.DCGMError(structs.DCGM_ST_UNKNOWN_FIELD)
    number = max(engine.field_groups, default=0) + 1
    engine.field_groups[number] = fieldGroupName, list(fieldIds)
    return number


def dcgmFieldGroupDestroy(dcgm_handle: Any, fieldGroupId: int) -> int:
    engine.check(dcgm_handle, "dcgmFieldGroupDestroy")
    engine.watches = [watch for watch in engine.watches if watch.fields != fieldGroupId]
    del engine.field_groups[fieldGroupId]
    return structs.DCGM_ST_OK


def dcgmWatchFields(
    dcgm_handle: Any, groupId: int, fieldGroupId: int, updateFreq: int, maxKeepAge: float, maxKeepSamples: int
) -> int:
    engine.check(dcgm_handle, "dcgmWatchFields")
    engine.watch(groupId, fieldGroupId, updateFreq, maxKeepAge, maxKeepSamples)
    return structs.DCGM_ST_OK


def dcgmUnwatchFields(dcgm_handle: Any, groupId: int, fieldGroupId: int) -> int:
    engine.check(dcgm_handle, "dcgmUnwatchFields")
    engine.watches = [watch for watch in engine.watches if (watch.group, watch.fields) != (groupId, fieldGroupId)]
    return structs.DCGM_ST_OK


def dcgmUpdateAllFields(dcgm_handle: Any, waitForUpdate: bool) -> int:
    engine.check(dcgm_handle, "dcgmUpdateAllFields")
    engine.update()
    return structs.DCGM_ST_OK


def dcgmGetLatestValues_v2(dcgm_handle: Any, groupId: int, fieldGroupId: int, enumCB: Any, userData: Any) -> int:
    engine.check(dcgm_handle, "dcgmGetLatestValues_v2")
    newest: dict[Any, Any] = {}
    for group, entity, value in engine.kept(groupId, fieldGroupId, 0, engine.now):
        newest[group, entity, value.fieldId] = group, entity, value
    for group, entity, value in newest.values():
        enumCB(group, entity, addressof(value), 1, None)
    return structs.DCGM_ST_OK


def dcgmGetValuesSince_v2(
    dcgm_handle: Any, groupId: int, fieldGroupId: int, sinceTimestamp: int, enumCB: Any, userData: Any
) -> int:
    engine.check(dcgm_handle, "dcgmGetValuesSince_v2")
    # What was stamped less than the delay ago is not stored yet, though the answer covers its time.
    for group, entity, value in engine.kept(groupId, fieldGroupId, sinceTimestamp, engine.now - STORE_DELAY_US):
        enumCB(group, entity, addressof(value), 1, None)
    return engine.now + 1


def dcgmEntitiesGetLatestValues(dcgmHandle: Any, entities: list[Any], fieldIds: list[int], flags: int) -> list[Any]:
    engine.check(dcgmHandle, "dcgmEntitiesGetLatestValues")
    assert flags == structs.DCGM_FV_FLAG_LIVE_DATA
    answer = []
    for entity in entities:
        for number in fieldIds:
            value = engine.value(entity.entityGroupId, entity.entityId, number, engine.now)
            item = structs.fill(structs.c_dcgmFieldValue_v2, number, engine.now, structs.DCGM_ST_OK, value)
            item.entityGroupId, item.entityId = entity.entityGroupId, entity.entityId
            answer.append(item)
    return answer


def dcgmProfGetSupportedMetricGroups(dcgmHandle: Any, gpuId: int) -> Any:
    engine.check(dcgmHandle, "dcgmProfGetSupportedMetricGroups")
    if engine.profiling_error is not None:
        raise structs.DCGMError(engine.profiling_error)
    answer = structs.c_dcgmProfGetMetricGroups_v3(gpuId=gpuId, numMetricGroups=2)
    half = len(engine.profiling_fields) // 2
    for group, ids in zip(answer.metricGroups, (engine.profiling_fields[:half], engine.profiling_fields[half:]), strict=False):
        group.numFieldIds = len(ids)
        group.fieldIds[: len(ids)] = ids
    return answer


def dcgmConnect_v2(ip_address: str, connectParams: Any) -> int:
    return engine.connect()


def dcgmStartEmbedded(opMode: int) -> int:
    return engine.connect()


def dcgmDisconnect(dcgm_handle: Any) -> int:
    engine.connections.remove(dcgm_handle)
    engine.check(dcgm_handle, "dcgmDisconnect")
    return structs.DCGM_ST_OK
