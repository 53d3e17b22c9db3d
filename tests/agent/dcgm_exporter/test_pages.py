"""What is read from the pages of the exporter's versions."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from epochcast.agent.sources.mig import mig_uuids
from epochcast.common.errors import InputError

MIB = 2**20
MIG = ',GPU_I_PROFILE="{}",GPU_I_ID="{}"'


def page(*series: tuple[str, str, object]) -> str:
    """A page of (field without DCGM_FI_, labels, value), with the comments that the exporter writes."""
    text = ""
    for name in dict.fromkeys(name for name, _, _ in series):
        text += f"# HELP DCGM_FI_{name} Help.\n# TYPE DCGM_FI_{name} gauge\n"
        text += "".join(f"DCGM_FI_{name}{{{labels}}} {value}\n" for other, labels, value in series if other == name)
    return text


def labels(gpu: int, uuid: str = "UUID", host: str = "Hostname", more: str = "") -> str:
    return f'gpu="{gpu}",{uuid}="GPU-{gpu}",device="nvidia{gpu}",modelName="NVIDIA A100",{host}="node"{more}'


def test_a_page_of_4_9_says_the_same(exporter: Any, read: Any, values: Any) -> None:
    old = exporter.open()
    before = [values(old, row) for row in read(old)]
    for page in (exporter.page_4_9, exporter.page_3 + exporter.page_4_9):  # a counters file may have both names
        exporter.serve(page)
        source = exporter.open()
        assert [(device.uuid, device.name, device.static) for device in source.devices] == [
            (device.uuid, device.name, device.static) for device in old.devices
        ]
        assert [values(source, row) for row in read(source)] == [pytest.approx(one) for one in before]
        assert source.devices[1].unmeasured["dram_active"] == "the exporter has no value of it for this device"


@pytest.mark.parametrize("blank", ["9223372036854775792", "140737488355330.000000", "NaN", "-1", "+Inf"])
def test_a_blank_that_comes_and_goes_is_counted_and_absent(exporter: Any, blank: str, read: Any, values: Any) -> None:
    source = exporter.open()
    read(source)
    exporter.serve(exporter.page_3.replace(" 87\n", f" {blank}\n"))
    row = values(source, read(source, 1)[0])
    assert math.isnan(row["gpu_utilization"])
    assert row["temperature"] == 41
    exporter.serve("".join(line for line in exporter.page_3.splitlines(True) if not line.endswith(" 87\n")))  # as 4.x does
    assert math.isnan(values(source, read(source, 2)[0])["gpu_utilization"])
    assert source.blanks == {(0, "gpu_utilization"): 2}
    assert not source.outdated


def test_an_energy_counter_may_grow_beyond_the_blanks_of_other_fields(exporter: Any, read: Any, values: Any) -> None:
    exporter.serve(page(("DEV_TOTAL_ENERGY_CONSUMPTION", labels(0), 300_000_000_000_000)))
    source = exporter.open()
    assert values(source, read(source)[0]) == {"energy": 3e11}


def test_names_and_labels_of_4(exporter: Any, read: Any, values: Any) -> None:
    exporter.serve(exporter.page_4)
    source = exporter.open()
    assert source.devices[0].uuid == "GPU-0"
    assert values(source, read(source)[0]) == {
        "sm_active": 0.5,
        "sm_occupancy": 0.25,
        "tensor_active": 0.125,
        "power_average": 300.5,
        "power_limit": 400.0,
        "temperature": 60,
        "gpu_utilization": 0.87,
    }


@pytest.mark.parametrize(("printed", "ratio"), [("1", 0.01), ("1.000000", 1.0), ("0.870000", 0.87), ("100", 1.0)])
def test_one_name_for_percent_and_for_a_ratio(exporter: Any, printed: str, ratio: float, read: Any, values: Any) -> None:
    exporter.serve(page(("DEV_GPU_UTIL_RATIO", labels(0), printed)))
    source = exporter.open()
    assert values(source, read(source)[0]) == {"gpu_utilization": pytest.approx(ratio)}


def test_mig_instances_are_devices(exporter: Any, read: Any, values: Any) -> None:
    exporter.serve(exporter.page_mig)
    source = exporter.open()
    assert [(device.label, device.uuid, device.name) for device in source.devices] == [
        ("0", "GPU-0", "NVIDIA A100"),
        ("0.7", "MIG-GPU-0/7", "NVIDIA A100 MIG 3g.40gb"),
        ("0.13", "MIG-GPU-0/13", "NVIDIA A100 MIG 1g.10gb"),
        ("1", "GPU-1", "NVIDIA A100"),
    ]
    rows = {source.devices[row.device].label: values(source, row) for row in read(source)}
    assert rows["0.13"] == {"gr_engine_active": 0.1, "memory_used": 2000 * MIB}
    assert rows["0"] == {"power_average": 100.0}


@pytest.mark.parametrize("nvml", [True, False])
def test_mig_instances_bear_the_uuids_of_nvml_where_there_is_nvml(
    exporter: Any, nvml: bool, nvml_driver: Any, read: Any
) -> None:
    """Else ``auto`` would take an instance that NVML and DCGM show for two."""
    answers = "" if nvml else "fail nvmlDeviceGetCount_v2 999 *\n"
    nvml_driver(f"gpus 1\ngpu 0 a100\nmig 0 7:3g.40gb:2 13:1g.10gb\n{answers}")
    assert mig_uuids() == ({("GPU-stub-0", 7): "MIG-stub-0-7-0", ("GPU-stub-0", 13): "MIG-stub-0-13-0"} if nvml else {})
    exporter.serve(exporter.page_mig.replace("GPU-0", "GPU-stub-0"))
    wanted = ["MIG-stub-0-7-0", "MIG-stub-0-13-0"] if nvml else ["MIG-GPU-stub-0/7", "MIG-GPU-stub-0/13"]
    source = exporter.open(only=frozenset(wanted))
    assert [device.uuid for device in source.devices] == wanted
    assert len(read(source)) == 2


def test_pods_that_share_a_gpu_give_one_value(exporter: Any, read: Any, values: Any) -> None:
    exporter.serve(
        page(
            ("DEV_GPU_UTIL", labels(0, more=',pod="a"'), 9223372036854775794),
            ("DEV_GPU_UTIL", labels(0, more=',pod="b"'), 40),
            ("DEV_GPU_UTIL", labels(0, more=',pod="c"'), 30),
        )
    )
    source = exporter.open()
    (row,) = read(source)
    assert values(source, row) == {"gpu_utilization": 0.4}


def test_an_unchanged_page_is_no_new_reading(exporter: Any, read: Any) -> None:
    source = exporter.open()
    assert len(read(source)) == 2
    assert read(source, 1) == []
    exporter.serve(exporter.page_3.replace("61.538000", "61.539000", 1))
    # One GPU's power has moved: the exporter has collected, so the other GPU's values are new too, though they are the same.
    assert {row.device for row in read(source, 2)} == {0, 1}
    assert read(source, 3) == []
    assert source.silent_after > 2 * 30  # the exporter's default interval


def test_only_some_gpus_and_metrics(exporter: Any, read: Any) -> None:
    source = exporter.open(only=frozenset({"GPU-1"}), tiers={"temperature": "off"})
    assert [device.uuid for device in source.devices] == ["GPU-1"]
    assert "temperature" not in {metric.name for metric in source.devices[0].metrics} | set(source.devices[0].unmeasured)
    assert [row.device for row in read(source)] == [0]
    with pytest.raises(InputError, match="finds no GPU to read"):
        exporter.open(only=frozenset({"GPU-7"}))


def test_what_is_not_in_the_counters_file_is_unmeasured(exporter: Any) -> None:
    unmeasured = exporter.open().devices[0].unmeasured
    assert unmeasured["sm_active"] == "not in the exporter's counters file; add DCGM_FI_PROF_SM_ACTIVE"
    assert "energy" not in unmeasured
    assert unmeasured["throttled_clock_setting"].startswith("a dcgm-exporter does not export it")


def test_a_new_xid_error_on_the_page_is_reported_once(exporter: Any, read: Any) -> None:
    source = exporter.open()
    read(source)
    assert source.take_xids() == []
    exporter.serve(exporter.page_3.replace('pod=""} 0', 'pod=""} 79'))
    read(source, 1)
    assert source.take_xids() == [(0, 79), (1, 79)]
    read(source, 2)
    assert source.take_xids() == []


@pytest.mark.parametrize(
    "change",
    [
        lambda old: old + page(("DEV_GPU_UTIL", labels(2), 5)),
        lambda old: old.replace("9223372036854775794", "5"),
        lambda old: old + page(("PROF_SM_ACTIVE", labels(0), "0.500000")),
        lambda old: old + page(("DEV_FB_USED", labels(0, more=MIG.format("3g.40gb", 7)), 1000)),
    ],
    ids=["GPU", "value for a blank", "metric", "MIG instance"],
)
def test_something_new_on_the_page_makes_the_source_outdated(exporter: Any, change: Callable[[str], str], read: Any) -> None:
    source = exporter.open()
    read(source)
    assert not source.outdated
    exporter.serve(change(exporter.page_3))
    assert len(read(source, 1)) == 2
    assert source.outdated


def test_a_gpu_of_which_all_is_blank_is_shown_once_it_has_a_value(exporter: Any, read: Any) -> None:
    blank = page(("DEV_GPU_UTIL", labels(0), 5), ("DEV_GPU_UTIL", labels(1), 9223372036854775794))
    exporter.serve(blank)
    source = exporter.open()
    assert [device.uuid for device in source.devices] == ["GPU-0"]
    assert len(read(source)) == 1
    assert not source.outdated
    exporter.serve(blank.replace(" 9223372036854775794", " 6").replace(" 5", " 9223372036854775794"))
    assert read(source, 1) == []  # nothing of GPU 0 now
    assert source.outdated
    assert source.blanks == {(0, "gpu_utilization"): 1}


def test_a_gpu_that_leaves_the_page_has_no_rows(exporter: Any, read: Any) -> None:
    source = exporter.open()
    read(source)
    exporter.serve("".join(line for line in exporter.page_3.splitlines(True) if 'gpu="1"' not in line))
    assert [row.device for row in read(source, 1)] == [0]
