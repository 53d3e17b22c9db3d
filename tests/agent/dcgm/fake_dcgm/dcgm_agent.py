# ruff: noqa: N802
"""Stand-in for DCGM's module of this name: the calls that the agent makes, with their true signatures."""

from ctypes import addressof
from types import SimpleNamespace
from typing import Any

import dcgm_structs as structs
from host_engine import FE_GPU, FE_GPU_CI, FE_GPU_I, STORE_DELAY_US, engine


def dcgmGetGpuInstanceHierarchy(dcgm_handle: Any) -> Any:
    engine.check(dcgm_handle)
    if not engine.instances:
        raise structs.DCGMError(structs.DCGM_ST_NOT_SUPPORTED)
    items = []
    for entity, (gpu, instance, _) in engine.instances.items():
        of_gpu, own = structs.c_dcgmGroupEntityPair_t(FE_GPU, gpu), structs.c_dcgmGroupEntityPair_t(FE_GPU_I, entity)
        items.append(SimpleNamespace(entity=own, parent=of_gpu, info=SimpleNamespace(nvmlInstanceId=instance)))
        compute = structs.c_dcgmGroupEntityPair_t(FE_GPU_CI, entity)
        items.append(SimpleNamespace(entity=compute, parent=own))
    return SimpleNamespace(count=len(items), entityList=items)


def dcgmGetLatestValues_v2(dcgm_handle: Any, groupId: int, fieldGroupId: int, enumCB: Any, userData: Any) -> int:
    engine.check(dcgm_handle)
    newest: dict[Any, Any] = {}
    for group, entity, value in engine.kept(groupId, fieldGroupId, 0, engine.now):
        newest[group, entity, value.fieldId] = group, entity, value
    for group, entity, value in newest.values():
        enumCB(group, entity, addressof(value), 1, None)
    return structs.DCGM_ST_OK


def dcgmGetValuesSince_v2(
    dcgm_handle: Any, groupId: int, fieldGroupId: int, sinceTimestamp: int, enumCB: Any, userData: Any
) -> int:
    engine.check(dcgm_handle)
    # What was stamped less than the delay ago is not stored yet, though the answer covers its time.
    for group, entity, value in engine.kept(groupId, fieldGroupId, sinceTimestamp, engine.now - STORE_DELAY_US):
        enumCB(group, entity, addressof(value), 1, None)
    return engine.now + 1


def dcgmEntitiesGetLatestValues(dcgmHandle: Any, entities: list[Any], fieldIds: list[int], flags: int) -> list[Any]:
    engine.check(dcgmHandle)
    assert flags == structs.DCGM_FV_FLAG_LIVE_DATA
    answer = []
    for entity in entities:
        for number in fieldIds:
            value = engine.value(entity.entityGroupId, entity.entityId, number, engine.now)
            item = structs.fill(number, engine.now, structs.DCGM_ST_OK, value)
            item.entityGroupId, item.entityId = entity.entityGroupId, entity.entityId
            answer.append(item)
    return answer


def dcgmProfGetSupportedMetricGroups(dcgmHandle: Any, gpuId: int) -> Any:
    engine.check(dcgmHandle)
    if engine.profiling_error is not None:
        raise structs.DCGMError(engine.profiling_error)
    half = len(engine.profiling_fields) // 2
    fields = (engine.profiling_fields[:half], engine.profiling_fields[half:])
    groups = [SimpleNamespace(numFieldIds=len(ids), fieldIds=[*ids, 0]) for ids in fields]
    return SimpleNamespace(numMetricGroups=len(groups), metricGroups=groups)
