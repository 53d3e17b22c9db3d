"""The names of dcgm-exporter's two generations, against the agent's catalogue and the names that the agent prints itself."""

import pytest

from epochcast.agent.catalog import catalog
from epochcast.agent.sources.dcgm_values import TIME_FIELDS
from epochcast.dcgm_names import LAST_XID, NAMES, NEWEST, OLDEST

# The name up to 4.8 -> the name since, and what one of the old unit is in the new one.
CHANGED = {
    "DCGM_FI_DEV_SM_CLOCK": ("DCGM_FI_DEV_SM_CLOCK_HERTZ", 1e6),
    "DCGM_FI_DEV_MEM_CLOCK": ("DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", 1e6),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 1e-3),
    "DCGM_FI_DEV_GPU_UTIL": ("DCGM_FI_DEV_GPU_UTIL_RATIO", 1e-2),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("DCGM_FI_DEV_MEMORY_UTIL_RATIO", 1e-2),
    "DCGM_FI_DEV_FB_FREE": ("DCGM_FI_DEV_FB_FREE_BYTES", 1024**2),
    "DCGM_FI_DEV_FB_USED": ("DCGM_FI_DEV_FB_USED_BYTES", 1024**2),
    "DCGM_FI_DEV_FB_RESERVED": ("DCGM_FI_DEV_FB_RESERVED_BYTES", 1024**2),
    "DCGM_FI_DEV_ENC_UTIL": ("DCGM_FI_DEV_ENC_UTIL_RATIO", 1e-2),
    "DCGM_FI_DEV_DEC_UTIL": ("DCGM_FI_DEV_DEC_UTIL_RATIO", 1e-2),
    "DCGM_FI_DEV_FAN_SPEED": ("DCGM_FI_DEV_FAN_SPEED_RATIO", 1e-2),
    "DCGM_FI_DEV_BAR1_FREE": ("DCGM_FI_DEV_BAR1_FREE_BYTES", 1024**2),
    "DCGM_FI_DEV_BAR1_USED": ("DCGM_FI_DEV_BAR1_USED_BYTES", 1024**2),
}


def test_every_dcgm_field_of_the_catalogue_has_a_name() -> None:
    counted = {metric.name for metric in catalog().values() if metric.dcgm in TIME_FIELDS}  # other than what the field holds
    columns = {metric.name for metric in catalog().values() if metric.dcgm is not None}
    assert {column for column, _ in NAMES.values()} == columns - counted | {LAST_XID}


def test_both_names_of_a_field_mean_the_same() -> None:
    for old, (new, factor) in CHANGED.items():
        (column, before), (same, after) = NAMES[old], NAMES[new]
        assert (same, before / after) == (column, pytest.approx(factor)), old


def test_all_others_are_in_base_units() -> None:
    assert {name for name, (_, factor) in NAMES.items() if factor != 1} == set(CHANGED)


def test_the_oldest_name_and_the_newest_of_a_column() -> None:
    for old, (new, _) in CHANGED.items():
        column = NAMES[old][0]
        assert (OLDEST[column], NEWEST[column]) == (old, new)
