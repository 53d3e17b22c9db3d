"""Source ``dcgm`` against stand-in bindings, found as the true ones are: in the folder that $DCGM_BINDINGS names."""

import ast
import ctypes
import logging
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.agent.config import Config, Dcgm
from epochcast.agent.errors import InputError
from epochcast.agent.sources import Row, Tick, dcgm_engine, open_source
from epochcast.agent.sources.dcgm import DcgmSource

FAKE = Path(__file__).with_name("fake_dcgm")
MODULES = {path.stem for path in FAKE.glob("*.py")}
# What the agent uses of the bindings, read in DCGM's testing/python3 at 3.3 and 4.6.0 (72fa3fe): present in both.
CONTRACT = {
    "pydcgm": "DcgmHandle DcgmGroup DcgmFieldGroup",
    "agent": "dcgmEntitiesGetLatestValues dcgmGetGpuInstanceHierarchy dcgmGetLatestValues_v2 dcgmGetValuesSince_v2 "
    "dcgmProfGetSupportedMetricGroups",
    "fields": "DCGM_FE_GPU DCGM_FE_GPU_I",
    "structs": "DCGMError DCGM_FV_FLAG_LIVE_DATA DCGM_GROUP_DEFAULT DCGM_GROUP_DEFAULT_INSTANCES DCGM_GROUP_EMPTY "
    "DCGM_ST_CONNECTION_NOT_VALID DCGM_ST_LIBRARY_NOT_FOUND DCGM_ST_MODULE_NOT_LOADED DCGM_ST_NOT_SUPPORTED DCGM_ST_OK "
    "DCGM_ST_PROFILING_NOT_SUPPORTED c_dcgmFieldValue_v1 c_dcgmGroupEntityPair_t __file__",
}
FAST_DEV = {"power", "energy"}


@pytest.fixture
def bindings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The stand-in on the discovery path; afterwards no module of it is left."""
    monkeypatch.setenv("DCGM_BINDINGS", str(FAKE))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(dcgm_engine, "_engines", {})
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def reset(bindings: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """``reset(**changes)``: the host engine behind the bindings, as new."""
    monkeypatch.syspath_prepend(str(FAKE))
    reset: Callable[..., Any] = import_module("host_engine").reset
    sys.path.remove(str(FAKE))
    return reset


@pytest.fixture
def open_dcgm() -> Iterator[Callable[..., DcgmSource]]:
    """Open sources that are closed after the test."""
    opened: list[Any] = []

    def open_(config: Config | None = None, only: frozenset[str] | None = None) -> DcgmSource:
        opened.append(open_source("dcgm", config or Config(), only))
        return opened[-1]

    yield open_
    for source in opened:
        source.close()


def read(source: DcgmSource, host: Any, seconds: int, start: int = 0) -> list[Row]:
    """Let time pass and read once a second, as the sampler does."""
    rows: list[Row] = []
    for second in range(start, start + seconds):
        host.advance(1.0)
        rows += source.read(Tick(host.now / 1e6, float(second), True, second % 60 == 0))
    return rows


def column(source: DcgmSource, rows: list[Row], device: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """(times, values) of one metric, where it has values."""
    at = [metric.name for metric in source.devices[device].metrics].index(name)
    time = np.array([row.time for row in rows if row.device == device])
    values = np.array([row.values[at] for row in rows if row.device == device])
    return time[~np.isnan(values)], values[~np.isnan(values)]


def test_every_tenth_of_a_second_once_and_in_order(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    source = open_dcgm()
    rows = read(source, host, 5)
    for device in (0, 1):
        times = [row.time for row in rows if row.device == device]
        assert np.allclose(np.diff(times), 0.1)  # none twice, none left out, though values of a tick come in two fetches
        assert len(times) >= 46
        time, values = column(source, rows, device, "sm_active")
        # The stand-in's value is a function of its stamp: each must be at the tick nearest to it.
        assert np.allclose(values, np.round(time * 10) % 1000 / 1000 + device)
        assert len(time) >= len(times) - 1  # all but the blank that profiling begins with
    assert not source.blanks


def test_fields_of_one_round_share_a_row_though_their_stamps_differ(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    source = open_dcgm()
    rows = read(source, host, 3)[4:]
    fast = [i for i, metric in enumerate(source.devices[0].metrics) if metric.tier == "fast"]
    assert len(fast) == 14
    assert not np.isnan([row.values[fast] for row in rows]).any()


def test_tiers_are_watched_at_their_own_interval(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    source = open_dcgm()
    intervals = {number: watch.interval for watch in host.watches for number in host.field_groups[watch.fields][1]}
    assert intervals[1002] == intervals[156] == 100_000
    assert intervals[203] == 1_000_000
    assert intervals[164] == 60_000_000
    assert {watch.keep_age for watch in host.watches} == {30.0, 120.0}
    assert "dcgmUpdateAllFields" in host.calls
    rows = read(source, host, 4)
    assert len(column(source, rows, 0, "gpu_utilization")[0]) == 4
    assert len(column(source, rows, 0, "power_limit")[0]) == 1


def test_tiers_follow_the_configuration(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    source = open_dcgm(Config(tiers={"gpu_utilization": "fast", "sm_active": "slow", "energy": "off"}))
    intervals = {number: watch.interval for watch in host.watches for number in host.field_groups[watch.fields][1]}
    assert (intervals[203], intervals[1002]) == (100_000, 1_000_000)
    assert 156 not in intervals
    assert "energy" not in [metric.name for metric in source.devices[0].metrics]


def test_units_are_base_units(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    for number in (92, 93, 100, 101, 150, 203, 204, 251, 252):
        host.overrides[0, number] = 50
    source = open_dcgm()
    rows = read(source, host, 3)
    value = {metric.name: column(source, rows, 0, metric.name)[1][-1] for metric in source.devices[0].metrics}
    assert value["gpu_utilization"] == value["memory_utilization"] == 0.5
    assert value["memory_used"] == value["memory_free"] == value["bar1_used"] == value["bar1_free"] == 50 * 2**20
    assert value["sm_clock"] == value["memory_clock"] == 50e6
    assert value["temperature"] == 50
    time, energy = column(source, rows, 0, "energy")
    assert energy[-1] == pytest.approx(time[-1] % 1000, abs=0.1)  # the stand-in counts a millijoule per millisecond
    assert value["power"] < 1


def test_profiling_has_watches_of_its_own(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    open_dcgm()
    assert len(host.groups) == 1  # an engine has 64 for all of its clients
    assert len(host.watches) == 4  # profiling; the rest by tier
    for watch in host.watches:
        kinds = {number > 1000 for number in host.field_groups[watch.fields][1]}
        assert len(kinds) == 1


@pytest.mark.parametrize(
    ("status", "reason"),
    [("DCGM_ST_MODULE_NOT_LOADED", "profiling module is not loaded"), ("DCGM_ST_NOT_SUPPORTED", "cannot profile this GPU")],
)
def test_without_profiling_the_rest_is_measured(reset: Any, open_dcgm: Any, status: str, reason: str) -> None:
    host = reset(profiling_error=getattr(sys.modules["dcgm_structs"], status))
    source = open_dcgm()
    device = source.devices[0]
    assert reason in device.unmeasured["sm_active"]
    assert len(device.unmeasured) == 13  # and Xid errors
    rows = read(source, host, 3)
    assert len(column(source, rows, 0, "energy")[0]) >= 25
    assert not source.blanks


def test_profiling_that_fails_only_when_watched_is_told_field_by_field(reset: Any, open_dcgm: Any) -> None:
    host = reset(profiling_error=sys.modules["dcgm_structs"].DCGM_ST_REQUIRES_ROOT)
    source = open_dcgm()
    assert "does not watch its field 1002: DCGM error -29" in source.devices[0].unmeasured["sm_active"]
    assert len(column(source, read(source, host, 2), 0, "energy")[0]) >= 15


def test_a_profiling_field_that_the_gpu_lacks_is_unmeasured(reset: Any, open_dcgm: Any) -> None:
    reset(profiling_fields=(1001, 1002, 1003, 1004))
    unmeasured = open_dcgm().devices[0].unmeasured
    assert "sm_active" not in unmeasured
    assert unmeasured["dram_active"] == "DCGM's profiling does not have it on this GPU"


def test_a_field_that_an_older_dcgm_does_not_know_costs_only_itself(reset: Any, open_dcgm: Any) -> None:
    host = reset(unknown_fields=frozenset({157}))
    source = open_dcgm()
    assert "does not watch its field 157" in source.devices[0].unmeasured["power"]
    assert len(host.watches) == 4  # the others are together again
    assert len(column(source, read(source, host, 2), 0, "energy")[0]) >= 15


def test_what_the_driver_never_gives_is_unmeasured_per_device(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    engine = sys.modules["host_engine"]
    host.overrides[1, 150] = engine.INT64_BLANK + 2
    host.overrides[1, 155] = engine.FP64_BLANK + 3.0
    host.overrides[0, 101] = sys.modules["dcgm_structs"].DCGMError(-6)
    source = open_dcgm()
    unmeasured = [dict(device.unmeasured) for device in source.devices]
    assert {each.pop("xid_errors") for each in unmeasured} == {"DCGM does not count it; the sources 'gpm' and 'nvml' do"}
    assert unmeasured[1] == {
        "temperature": "not supported by this GPU and driver",
        "power_average": "DCGM's host engine lacks the permission to read it",
    }
    assert unmeasured[0] == {"memory_clock": "not supported by this GPU and driver"}
    read(source, host, 2)
    assert not source.blanks  # what is known to be missing is not missed every second


def test_blanks_are_absent_and_counted_once_each(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    source = open_dcgm()
    rows = read(source, host, 2)
    before = len(column(source, rows, 0, "energy")[0])
    engine = sys.modules["host_engine"]
    host.overrides[0, 156] = engine.INT64_BLANK
    host.overrides[0, 1002] = engine.FP64_BLANK + 1
    host.overrides[0, 1003] = float("nan")
    host.overrides[0, 157] = sys.modules["dcgm_structs"].DCGMError(-18)  # GPU is lost
    rows += read(source, host, 1, start=2)
    for name in ("energy", "sm_active", "sm_occupancy", "power"):
        del host.overrides[0, {"energy": 156, "sm_active": 1002, "sm_occupancy": 1003, "power": 157}[name]]
    rows += read(source, host, 2, start=3)
    assert source.blanks == {(0, "energy"): 10, (0, "sm_active"): 10, (0, "sm_occupancy"): 10, (0, "power"): 10}
    assert len(column(source, rows, 0, "energy")[0]) == before + 30 - 10
    assert (column(source, rows, 0, "sm_active")[1] < 2).all()


def test_a_text_where_a_number_is_due_is_a_blank(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    source = open_dcgm()
    read(source, host, 2)
    host.overrides[0, 150] = "hot"
    read(source, host, 3, start=2)  # the newest one's tick is still open then
    assert source.blanks == {(0, "temperature"): 2}


def test_devices_and_what_never_changes(reset: Any, open_dcgm: Any) -> None:
    reset()
    source = open_dcgm()
    assert [(device.index, device.uuid, device.name, device.source) for device in source.devices] == [
        (1, "GPU-aaaa", "NVIDIA A100", "dcgm"),  # DCGM's GPU 0 is NVML's GPU 1 here
        (0, "GPU-bbbb", "NVIDIA A100", "dcgm"),
    ]
    static = {name: fact.value for name, fact in source.devices[0].static.items()}
    assert static == {
        "driver_version": "550.54",
        "compute_capability": "8.0",
        "bar1_total": 131072 * 2**20,
        "memory_total": 81920 * 2**20,
        "max_sm_clock": 1.41e9,
        "max_memory_clock": 1.593e9,
        "shutdown_temperature": 92.0,
        "power_limit": 400.0,
        "pcie_link_width": 16,
    }
    assert {fact.source for fact in source.devices[0].static.values()} == {"dcgm"}


def test_what_a_host_engine_cannot_tell_is_had_otherwise_or_done_without(
    reset: Any, open_dcgm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = reset()
    open_dcgm().close()
    structs, agent = sys.modules["dcgm_structs"], sys.modules["dcgm_agent"]

    def refuse(*_: Any) -> None:
        raise structs.DCGMError(structs.DCGM_ST_NO_DATA)

    for name in ("dcgmGetDeviceAttributes", "dcgmUpdateAllFields", "dcgmGetLatestValues_v2"):
        monkeypatch.setattr(agent, name, refuse)
    host.overrides[0, 54] = "GPU-cccc"  # of GPU 1 nothing tells the UUID
    host.overrides[1, 54] = "<<<NULL>>>"
    source = open_dcgm()
    (device,) = source.devices
    assert (device.uuid, device.name, "driver_version" in device.static) == ("GPU-cccc", "NVIDIA A100", False)
    assert len(column(source, read(source, host, 2), 0, "energy")[0]) >= 15


def test_mig_instances_are_devices_with_what_is_their_own(reset: Any, open_dcgm: Any) -> None:
    host = reset(instances={3: (0, 7, "3g.40gb"), 4: (0, 9, "1g.10gb")})
    source = open_dcgm()
    instance = source.devices[3]
    assert (instance.label, instance.uuid, instance.name) == ("1.9", "MIG-GPU-aaaa/9", "NVIDIA A100 MIG 1g.10gb")
    assert len(source.devices) == 4
    assert {"power", "sm_clock"} <= set(instance.unmeasured)
    assert {"sm_active", "memory_used"} <= {metric.name for metric in instance.metrics}
    time, values = column(source, read(source, host, 3), 3, "dram_active")
    assert np.allclose(values, np.round(time * 10) % 1000 / 1000 + 4)
    assert set(host.group_types.values()) == {0, 3}  # DCGM's own groups of all GPUs and of all instances


def test_mig_instances_bear_the_uuids_of_nvml_where_there_is_nvml(
    reset: Any, open_dcgm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reset(instances={3: (0, 7, "3g.40gb"), 4: (0, 9, "1g.10gb")})
    monkeypatch.setattr(dcgm_engine, "mig_uuids", lambda: {("GPU-aaaa", 7): "MIG-1234"})
    assert [device.uuid for device in open_dcgm().devices[2:]] == ["MIG-1234", "MIG-GPU-aaaa/9"]


def test_only_some_gpus(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    source = open_dcgm(only=frozenset({"GPU-bbbb"}))
    assert [device.uuid for device in source.devices] == ["GPU-bbbb"]
    assert {owner for owners in host.groups.values() for owner in owners} == {(1, 1)}
    assert {row.device for row in read(source, host, 2)} == {0}
    with pytest.raises(InputError, match="sees none of the GPUs that it is to read; it sees GPU-aaaa, GPU-bbbb"):
        open_dcgm(only=frozenset({"GPU-cccc"}))


def test_the_history_of_other_clients_is_left_alone(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    first = open_dcgm()
    host.advance(20.0)
    second = open_dcgm()
    assert min(row.time for row in read(second, host, 1)) > host.now / 1e6 - 2
    assert first is not second


def test_what_waits_for_a_late_reader_is_not_lost(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    source = open_dcgm()
    rows = read(source, host, 1)
    host.advance(20.0)
    rows += read(source, host, 1, start=21)
    times = [row.time for row in rows if row.device == 0]
    assert np.allclose(np.diff(times), 0.1)
    assert times[-1] - times[0] > 20


def test_a_host_engine_that_restarts(reset: Any, open_dcgm: Any, caplog: pytest.LogCaptureFixture) -> None:
    host = reset()
    source = open_dcgm()
    rows = read(source, host, 2)
    host.stop()
    failures = 0
    for second in range(2, 12):
        host.advance(1.0)
        with pytest.raises(RuntimeError, match="DCGM host engine"):
            source.read(Tick(host.now / 1e6, float(second), True, False))
        failures += host.where["timeoutMs"] == 3000
    # Lost at 2; tried again after 1, 2, 4 … s: at 3, 5, 9; the other seconds do not ask.
    host.restart()
    with pytest.raises(RuntimeError):
        source.read(Tick(host.now / 1e6, 16.0, True, False))
    assert not host.connections[1:]
    with caplog.at_level(logging.WARNING):
        rows += read(source, host, 3, start=17)
    assert "answers again" in caplog.text
    time, _ = column(source, rows, 0, "sm_active")
    assert (np.diff(time) > 0).all()
    assert time[-1] > host.now / 1e6 - 1
    assert not source.outdated
    assert not source.blanks  # the blank with which profiling begins anew is no loss


def test_one_connection_per_process(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    first, second = open_dcgm(), open_dcgm(only=frozenset({"GPU-aaaa"}))
    assert host.most_connections == 1
    assert read(first, host, 2)
    assert read(second, host, 2)
    first.close()
    assert host.connections
    assert read(second, host, 2, start=2)
    host.restart()
    for source in (first, second):
        source.close()
    assert not host.connections


def test_closing_leaves_nothing_behind(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    source = open_dcgm()
    source.close()
    assert not host.watches
    assert not host.field_groups
    assert not host.connections
    assert not sys.modules["pydcgm"].DcgmFieldGroup.groups
    source.close()


def test_other_gpus_after_a_restart_make_the_source_outdated(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    source = open_dcgm()
    read(source, host, 1)
    host.restart()
    host.gpus = {0: "GPU-aaaa"}
    for second in (1, 3):
        with pytest.raises(RuntimeError):
            source.read(Tick(host.now / 1e6, float(second), True, False))
    assert source.outdated


def test_a_gpu_added_or_mig_set_up_anew_makes_the_source_outdated(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    source = open_dcgm()
    read(source, host, 59)
    assert not source.outdated
    host.instances = {3: (0, 7, "3g.40gb")}
    assert read(source, host, 2, start=59)
    assert source.outdated


def test_profiling_lost_over_a_restart_makes_the_source_outdated(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    source = open_dcgm()
    host.restart()
    host.profiling_error = sys.modules["dcgm_structs"].DCGM_ST_MODULE_NOT_LOADED
    with pytest.raises(RuntimeError):
        source.read(Tick(host.now / 1e6, 0.0, True, False))
    read(source, host, 2, start=2)
    assert source.outdated


def test_an_engine_whose_clock_is_set_back_goes_on(reset: Any, open_dcgm: Any) -> None:
    host = reset()
    source = open_dcgm()
    read(source, host, 3)
    host.now -= 3_600_000_000
    for watch in host.watches:
        watch.due -= 3_600_000_000
    rows = read(source, host, 3, start=3)
    assert rows
    assert rows[-1].time == pytest.approx(host.now / 1e6, abs=0.5)


@pytest.mark.parametrize(
    ("dcgm", "where"),
    [
        (Dcgm(), {"ipAddress": "127.0.0.1:5555", "unixSocketPath": None, "timeoutMs": 3000}),
        (Dcgm(address="unix:/run/dcgm.sock"), {"ipAddress": None, "unixSocketPath": "/run/dcgm.sock", "timeoutMs": 3000}),
        (Dcgm(embedded=True), {"ipAddress": None, "unixSocketPath": None, "timeoutMs": 0}),
    ],
)
def test_where_the_host_engine_is(reset: Any, open_dcgm: Any, dcgm: Dcgm, where: dict[str, Any]) -> None:
    host = reset()
    open_dcgm(Config(dcgm=dcgm))
    assert host.where == where


@pytest.mark.parametrize(
    ("changes", "dcgm", "message"),
    [
        ({"running": False}, Dcgm(), r"host engine at 127\.0\.0\.1:5555 does not answer \(.+\); start it"),
        ({"running": False}, Dcgm(embedded=True), "does not start within the agent .+ needs root"),
        ({"library": False}, Dcgm(), r"has DCGM's Python bindings \(.+\) but not its library"),
        ({"gpus": {}}, Dcgm(), "finds no GPU that DCGM supports"),
        ({"unknown_fields": frozenset(range(2000))}, Dcgm(), "can read none of the metrics"),
    ],
)
def test_what_cannot_work_is_one_sentence(
    reset: Any, open_dcgm: Any, changes: dict[str, Any], dcgm: Dcgm, message: str
) -> None:
    host = reset(**changes)
    with pytest.raises(InputError, match=message) as caught:
        open_dcgm(Config(dcgm=dcgm))
    assert "\n" not in str(caught.value)
    assert not host.connections


def test_without_bindings(open_dcgm: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DCGM_BINDINGS", raising=False)
    monkeypatch.setattr(dcgm_engine, "PLACES", (tmp_path / "v4", tmp_path / "v3"))
    with pytest.raises(InputError, match=r"finds no DCGM Python bindings \(pydcgm.py\) in .*v4, .*v3; install DCGM"):
        open_dcgm()
    monkeypatch.setenv("DCGM_BINDINGS", str(tmp_path))
    with pytest.raises(InputError, match=r"\$DCGM_BINDINGS names .* where there is no pydcgm.py"):
        open_dcgm()
    with pytest.raises(InputError, match=r"dcgm.bindings names .* where there is no pydcgm.py"):
        open_dcgm(Config(dcgm=Dcgm(bindings=tmp_path)))


def test_bindings_that_cannot_be_imported(open_dcgm: Any, bindings: None, tmp_path: Path) -> None:
    (tmp_path / "pydcgm.py").write_text("import a_module_that_nobody_has\n")
    with pytest.raises(InputError, match=r"cannot be imported .*a_module_that_nobody_has"):
        open_dcgm(Config(dcgm=Dcgm(bindings=tmp_path)))


def test_the_bindings_come_last_on_the_path_and_the_newest_place_first(
    bindings: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DCGM_BINDINGS")
    monkeypatch.setattr(dcgm_engine, "PLACES", (FAKE, tmp_path))
    (tmp_path / "pydcgm.py").write_text("raise RuntimeError('DCGM 3 although there is DCGM 4')\n")
    before = [*sys.path]
    dcgm_engine.load_bindings(None)
    assert sys.path == [*before, str(FAKE)]


def test_nothing_of_the_bindings_is_used_that_is_not_in_both_major_versions() -> None:
    used: dict[str, set[str]] = {name: set() for name in CONTRACT}
    for path in Path(str(dcgm_engine.__file__)).parent.glob("dcgm*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                owner = node.value
                name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
                if name in used:
                    used[name].add(node.attr)
    assert used == {name: set(members.split()) for name, members in CONTRACT.items()}


def test_the_stand_in_offers_the_contract(reset: Any) -> None:
    reset()
    loaded = dcgm_engine.load_bindings(None)
    for module, members in CONTRACT.items():
        for member in members.split():
            assert hasattr(getattr(loaded, module), member), f"{module}.{member}"
    assert ctypes.sizeof(loaded.structs.c_dcgmFieldValue_v1) == 4120  # as printed by the bindings of 4.6.0


def test_an_array_of_values_in_one_call_is_read_whole(reset: Any) -> None:
    """The header allows it, though the library hands them out one by one."""
    from epochcast.agent.sources.dcgm_values import Readings, numbers

    reset()
    structs = sys.modules["dcgm_structs"]
    readings = Readings(structs)
    values = (structs.c_dcgmFieldValue_v1 * 3)(
        *(structs.fill(structs.c_dcgmFieldValue_v1, 1002, ts, 0, ts / 10) for ts in (1, 2, 3))
    )
    readings.callback(1, 5, ctypes.addressof(values), 3, None)
    owners, raw = readings.take()
    assert owners.tolist() == [1 << 32 | 5] * 3
    assert raw["ts"].tolist() == [1, 2, 3]
    assert numbers(raw).tolist() == [0.1, 0.2, 0.3]
    assert len(readings.take()[0]) == 0


def test_a_whole_agent_on_dcgm(start_agent: Any) -> None:
    agent = start_agent("--source", "dcgm", env={"DCGM_BINDINGS": str(FAKE), "FAKE_DCGM_LIVE": "1"})
    deadline = time.monotonic() + 20
    while 'epochcast_gpu_sm_active_ratio{gpu="0"' not in agent.text("/metrics"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    status, errors = agent.stop()
    assert status == 0
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors
