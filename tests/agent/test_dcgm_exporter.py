"""Source ``dcgm-exporter`` against an HTTP server that serves pages of its versions, and fails in all the ways they do."""

import contextlib
import ctypes
import math
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pynvml
import pytest

from epochcast.agent.catalog import catalog
from epochcast.agent.config import Config
from epochcast.agent.errors import InputError
from epochcast.agent.sources import Row, Tick, dcgm_exporter, open_source
from epochcast.agent.sources.dcgm_exporter import DcgmExporterSource
from epochcast.agent.sources.dcgm_table import NAMES, SCALE
from epochcast.agent.sources.mig import mig_uuids

MIB = 2**20


def page(*series: tuple[str, str, object]) -> str:
    """A page of (field without DCGM_FI_, labels, value), with the comments that the exporter writes."""
    text = ""
    for name in dict.fromkeys(name for name, _, _ in series):
        text += f"# HELP DCGM_FI_{name} Help.\n# TYPE DCGM_FI_{name} gauge\n"
        text += "".join(f"DCGM_FI_{name}{{{labels}}} {value}\n" for other, labels, value in series if other == name)
    return text


def labels(gpu: int, uuid: str = "UUID", host: str = "Hostname", more: str = "") -> str:
    return f'gpu="{gpu}",{uuid}="GPU-{gpu}",device="nvidia{gpu}",modelName="NVIDIA A100",{host}="node"{more}'


DRIVER = ',DCGM_FI_DRIVER_VERSION="550.54"'
# Exporter 3.x: Hostname, container labels always there, blanks printed as they are.
PAGE_3 = page(
    *(
        (name, labels(gpu, more=DRIVER + ',container="",namespace="",pod=""'), value)
        for gpu in (0, 1)
        for name, value in (
            ("DEV_SM_CLOCK", 1410),
            ("DEV_MEM_CLOCK", 1593),
            ("DEV_MEMORY_TEMP", 9223372036854775794),
            ("DEV_GPU_TEMP", 41 + gpu),
            ("DEV_POWER_USAGE", "61.538000"),
            ("DEV_TOTAL_ENERGY_CONSUMPTION", 1_500_000_000_000),
            ("DEV_GPU_UTIL", 9223372036854775794 if gpu else 87),
            ("DEV_MEM_COPY_UTIL", 50),
            ("DEV_XID_ERRORS", 0),
            ("DEV_FB_FREE", 40000),
            ("DEV_FB_USED", 512),
            ("PROF_GR_ENGINE_ACTIVE", "0.750000"),
            ("PROF_PCIE_TX_BYTES", 123456789),
            ("PROF_DRAM_ACTIVE", "140737488355328.000000" if gpu else "0.250000"),
        )
    )
)
# Exporter 4.x with the field names of DCGM 4.6 in its counters file: hostname, uuid.
PAGE_4 = page(
    *(
        (name, labels(0, uuid="uuid", host="hostname", more=',pci_bus_id="00000000:07:00.0"'), value)
        for name, value in (
            ("PROF_SM_UTIL_RATIO", "0.500000"),
            ("PROF_SM_OCCUPANCY_RATIO", "0.250000"),
            ("PROF_TENSOR_UTIL_RATIO", "0.125000"),
            ("DEV_BOARD_POWER_WATTS", "300.500000"),
            ("DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", "400.000000"),
            ("DEV_GPU_TEMP_CELSIUS", 60),
            ("DEV_GPU_UTIL_RATIO", 87),
        )
    )
)
MIG = ',GPU_I_PROFILE="{}",GPU_I_ID="{}"'
PAGE_MIG = page(
    ("DEV_POWER_USAGE", labels(0), "100.000000"),
    ("DEV_FB_USED", labels(0, more=MIG.format("3g.40gb", 7)), 1000),
    ("PROF_GR_ENGINE_ACTIVE", labels(0, more=MIG.format("3g.40gb", 7)), "0.900000"),
    ("DEV_FB_USED", labels(0, more=MIG.format("1g.10gb", 13)), 2000),
    ("PROF_GR_ENGINE_ACTIVE", labels(0, more=MIG.format("1g.10gb", 13)), "0.100000"),
    ("PROF_GR_ENGINE_ACTIVE", labels(1), "0.300000"),
)

Answer = Callable[[BaseHTTPRequestHandler], None]


def whole(text: str) -> Answer:
    return lambda handler: send(handler, text.encode())


def send(handler: BaseHTTPRequestHandler, body: bytes, length: int | None = None, status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", "text/plain; version=0.0.4")
    if length != -1:
        handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    handler.wfile.write(body)


class Exporter:
    """``answer`` is called with each request's handler."""

    def __init__(self) -> None:
        self.answer: Answer = whole(PAGE_3)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the source may have had enough
                    outer.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/metrics"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    server = Exporter()
    yield server
    server.close()


def open_exporter(exporter: Exporter, only: frozenset[str] | None = None, **settings: Any) -> DcgmExporterSource:
    source = open_source("dcgm-exporter", Config(exporter=exporter.url, **settings), only)
    assert isinstance(source, DcgmExporterSource)
    return source


def read(source: DcgmExporterSource, second: float = 0.0) -> list[Row]:
    return list(source.read(Tick(1000.0 + second, second, True, second == 0)))


def values(source: DcgmExporterSource, row: Row) -> dict[str, float]:
    return dict(zip([metric.name for metric in source.devices[row.device].metrics], row.values, strict=True))


def test_a_page_of_3_in_base_units(exporter: Exporter) -> None:
    source = open_exporter(exporter)
    assert [(device.index, device.uuid, device.name, device.source) for device in source.devices] == [
        (0, "GPU-0", "NVIDIA A100", "dcgm-exporter"),
        (1, "GPU-1", "NVIDIA A100", "dcgm-exporter"),
    ]
    assert source.devices[0].static["driver_version"].value == "550.54"
    rows = read(source)
    assert [(row.device, row.time) for row in rows] == [(0, 1000.0), (1, 1000.0)]
    assert values(source, rows[0]) == {
        "gr_engine_active": 0.75,
        "dram_active": 0.25,
        "pcie_tx": 123456789,
        "gpu_utilization": 0.87,
        "memory_utilization": 0.5,
        "power_average": 61.538,
        "energy": 1.5e9,
        "sm_clock": 1410e6,
        "memory_clock": 1593e6,
        "temperature": 41,
        "memory_used": 512 * MIB,
        "memory_free": 40000 * MIB,
    }


def test_old_blanks_are_no_values(exporter: Exporter) -> None:
    source = open_exporter(exporter)
    row = values(source, read(source)[1])
    assert max(row.values()) == 40000 * MIB
    assert source.devices[1].unmeasured["gpu_utilization"] == "the exporter has no value of it for this device"
    assert source.devices[1].unmeasured["dram_active"] == "the exporter has no value of it for this device"


@pytest.mark.parametrize("blank", ["9223372036854775792", "140737488355330.000000", "NaN", "-1", "+Inf"])
def test_a_blank_that_comes_and_goes_is_counted_and_absent(exporter: Exporter, blank: str) -> None:
    source = open_exporter(exporter)
    read(source)
    exporter.answer = whole(PAGE_3.replace(" 87\n", f" {blank}\n"))
    row = values(source, read(source, 1)[0])
    assert math.isnan(row["gpu_utilization"])
    assert row["temperature"] == 41
    exporter.answer = whole("".join(line for line in PAGE_3.splitlines(True) if not line.endswith(" 87\n")))  # as 4.x does
    assert math.isnan(values(source, read(source, 2)[0])["gpu_utilization"])
    assert source.blanks == {(0, "gpu_utilization"): 2}
    assert not source.outdated


def test_an_energy_counter_may_grow_beyond_the_blanks_of_other_fields(exporter: Exporter) -> None:
    exporter.answer = whole(page(("DEV_TOTAL_ENERGY_CONSUMPTION", labels(0), 300_000_000_000_000)))
    source = open_exporter(exporter)
    assert values(source, read(source)[0]) == {"energy": 3e11}


def test_names_and_labels_of_4(exporter: Exporter) -> None:
    exporter.answer = whole(PAGE_4)
    source = open_exporter(exporter)
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
def test_one_name_for_percent_and_for_a_ratio(exporter: Exporter, printed: str, ratio: float) -> None:
    exporter.answer = whole(page(("DEV_GPU_UTIL_RATIO", labels(0), printed)))
    source = open_exporter(exporter)
    assert values(source, read(source)[0]) == {"gpu_utilization": pytest.approx(ratio)}


def test_mig_instances_are_devices(exporter: Exporter) -> None:
    exporter.answer = whole(PAGE_MIG)
    source = open_exporter(exporter)
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
    exporter: Exporter, nvml: bool, nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else ``auto`` would take an instance that NVML and DCGM show for two."""
    scenario = tmp_path / "scenario"
    answers = "" if nvml else "fail nvmlDeviceGetCount_v2 999 *\n"
    scenario.write_text(f"gpus 1\ngpu 0 a100\nmig 0 7:3g.40gb:2 13:1g.10gb\n{answers}")
    monkeypatch.setenv("NVML_STUB_SCENARIO", str(scenario))
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(nvml_library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    assert mig_uuids() == ({("GPU-stub-0", 7): "MIG-stub-0-7-0", ("GPU-stub-0", 13): "MIG-stub-0-13-0"} if nvml else {})
    exporter.answer = whole(PAGE_MIG.replace("GPU-0", "GPU-stub-0"))
    wanted = ["MIG-stub-0-7-0", "MIG-stub-0-13-0"] if nvml else ["MIG-GPU-stub-0/7", "MIG-GPU-stub-0/13"]
    source = open_exporter(exporter, only=frozenset(wanted))
    assert [device.uuid for device in source.devices] == wanted
    assert len(read(source)) == 2


def test_pods_that_share_a_gpu_give_one_value(exporter: Exporter) -> None:
    exporter.answer = whole(
        page(
            ("DEV_GPU_UTIL", labels(0, more=',pod="a"'), 9223372036854775794),
            ("DEV_GPU_UTIL", labels(0, more=',pod="b"'), 40),
            ("DEV_GPU_UTIL", labels(0, more=',pod="c"'), 30),
        )
    )
    source = open_exporter(exporter)
    (row,) = read(source)
    assert values(source, row) == {"gpu_utilization": 0.4}


def test_an_unchanged_page_is_no_new_reading(exporter: Exporter) -> None:
    source = open_exporter(exporter)
    assert len(read(source)) == 2
    assert read(source, 1) == []
    exporter.answer = whole(PAGE_3.replace("61.538000", "61.539000", 1))
    # One GPU's power has moved: the exporter has collected, so the other GPU's values are new too, though they are the same.
    assert {row.device for row in read(source, 2)} == {0, 1}
    assert read(source, 3) == []
    assert source.silent_after > 2 * 30  # the exporter's default interval


def test_only_some_gpus_and_metrics(exporter: Exporter) -> None:
    source = open_exporter(exporter, only=frozenset({"GPU-1"}), tiers={"temperature": "off"})
    assert [device.uuid for device in source.devices] == ["GPU-1"]
    assert "temperature" not in {metric.name for metric in source.devices[0].metrics} | set(source.devices[0].unmeasured)
    assert [row.device for row in read(source)] == [0]
    with pytest.raises(InputError, match="finds no GPU that it is to read"):
        open_exporter(exporter, only=frozenset({"GPU-7"}))


def test_what_is_not_in_the_counters_file_is_unmeasured(exporter: Exporter) -> None:
    unmeasured = open_exporter(exporter).devices[0].unmeasured
    assert unmeasured["sm_active"] == "not in the exporter's counters file; add DCGM_FI_PROF_SM_ACTIVE"
    assert "energy" not in unmeasured
    assert unmeasured["xid_errors"].startswith("DCGM does not count it")


@pytest.mark.parametrize(
    "new",
    [
        PAGE_3 + page(("DEV_GPU_UTIL", labels(2), 5)),
        PAGE_3.replace("9223372036854775794", "5"),
        PAGE_3 + page(("PROF_SM_ACTIVE", labels(0), "0.500000")),
        PAGE_3 + page(("DEV_FB_USED", labels(0, more=MIG.format("3g.40gb", 7)), 1000)),
    ],
    ids=["GPU", "value for a blank", "metric", "MIG instance"],
)
def test_something_new_on_the_page_makes_the_source_outdated(exporter: Exporter, new: str) -> None:
    source = open_exporter(exporter)
    read(source)
    assert not source.outdated
    exporter.answer = whole(new)
    assert len(read(source, 1)) == 2
    assert source.outdated


def test_a_gpu_of_which_all_is_blank_is_shown_once_it_has_a_value(exporter: Exporter) -> None:
    blank = page(("DEV_GPU_UTIL", labels(0), 5), ("DEV_GPU_UTIL", labels(1), 9223372036854775794))
    exporter.answer = whole(blank)
    source = open_exporter(exporter)
    assert [device.uuid for device in source.devices] == ["GPU-0"]
    assert len(read(source)) == 1
    assert not source.outdated
    exporter.answer = whole(blank.replace(" 9223372036854775794", " 6").replace(" 5", " 9223372036854775794"))
    assert read(source, 1) == []  # nothing of GPU 0 now
    assert source.outdated
    assert source.blanks == {(0, "gpu_utilization"): 1}


def test_a_gpu_that_leaves_the_page_has_no_rows(exporter: Exporter) -> None:
    source = open_exporter(exporter)
    read(source)
    exporter.answer = whole("".join(line for line in PAGE_3.splitlines(True) if 'gpu="1"' not in line))
    assert [row.device for row in read(source, 1)] == [0]


def dribble(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for line in PAGE_3.splitlines(True):
        handler.wfile.write(line.encode())
        handler.wfile.flush()
        time.sleep(0.05)


def hang(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(0.6)


def huge(handler: BaseHTTPRequestHandler) -> None:
    send(handler, PAGE_3.encode() * 3, length=-1)


def chunks_cut(handler: BaseHTTPRequestHandler) -> None:
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"400\r\n" + PAGE_3.encode()[:300])
    handler.close_connection = True


FAILURES: dict[str, tuple[Answer, str]] = {
    "status 500": (lambda handler: send(handler, b"collector failed\n", status=500), "HTTP status 500"),
    "shorter than it says": (
        lambda handler: send(handler, PAGE_3.encode()[:1000], length=len(PAGE_3)),
        "breaks off|Incomplete",
    ),
    "cut chunks": (chunks_cut, "IncompleteRead|breaks off|cut off"),
    "cut line, no length": (lambda handler: send(handler, PAGE_3.encode()[:1003], length=-1), "its last line is cut off"),
    "broken line": (whole(PAGE_3 + 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID= 87\n'), "."),
    "no number": (whole(PAGE_3 + f"DCGM_FI_DEV_GPU_UTIL{{{labels(0)}}} lots\n"), "lots"),
    "not Prometheus": (whole("<html>\n<p>Welcome to nginx</p>\n"), "no Prometheus page, it begins with '<html>'"),
    "empty": (whole(""), "cut off"),
    "not text": (lambda handler: send(handler, b"\xff\xfe\n"), "utf-8"),
    "not HTTP": (lambda handler: (handler.wfile.write(b"gibberish\r\n\r\n"), None)[1], "BadStatusLine|gibberish"),
    "slow": (dribble, "longer than 0.3 s"),
    "hanging": (hang, "timed out"),
    "huge": (huge, "larger than 0 MiB"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_page_that_fails_costs_one_read(exporter: Exporter, failure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dcgm_exporter, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(dcgm_exporter, "LARGEST_PAGE", 2 * len(PAGE_3))
    source = open_exporter(exporter)
    read(source)
    exporter.answer, message = FAILURES[failure]
    with pytest.raises(RuntimeError, match=f"cannot be read: .*({message})"):
        read(source, 1)
    exporter.answer = whole(PAGE_3.replace("61.538000", "70.000000"))
    assert [values(source, row)["power_average"] for row in read(source, 2)] == [70.0, 70.0]
    assert not source.blanks
    assert not source.outdated


def test_nothing_is_kept_of_a_page_that_is_cut_within_a_line(exporter: Exporter) -> None:
    source = open_exporter(exporter)
    for cut in range(1, len(PAGE_3), 97):
        if PAGE_3[cut - 1] != "\n":
            exporter.answer = partial(send, body=PAGE_3[:cut].encode(), length=-1)
            with pytest.raises(RuntimeError, match="its last line is cut off"):
                read(source)
    assert not source.blanks


def test_gone_and_back(exporter: Exporter) -> None:
    source = open_exporter(exporter)
    exporter.close()
    with pytest.raises(RuntimeError, match=r"cannot be read: .*refused"):
        read(source)
    with pytest.raises(InputError, match=r"page http://127.0.0.1:\d+/metrics cannot be read \(.*refused.*\); start"):
        open_exporter(exporter)
    exporter.__init__()  # type: ignore[misc]
    source._url = exporter.url
    assert len(read(source, 1)) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<html>\n", "no Prometheus page"),
        ("# HELP go_goroutines Number.\n# TYPE go_goroutines gauge\ngo_goroutines 8\n", "finds no GPU on the page"),
        ('# HELP\nDCGM_FI_DEV_GPU_UTIL{gpu="0"} 5\n', r"finds no GPU on the page .*with a UUID and a value"),
        ('# HELP\nDCGM_FI_DEV_GPU_UTIL{gpu="x",UUID="GPU-0"} 5\n', "finds no GPU on the page"),
    ],
)
def test_a_page_without_gpus_is_one_sentence(exporter: Exporter, text: str, message: str) -> None:
    exporter.answer = whole(text)
    with pytest.raises(InputError, match=message) as caught:
        open_exporter(exporter)
    assert "\n" not in str(caught.value)


def test_a_proxy_of_the_environment_is_not_asked(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert len(read(open_exporter(exporter))) == 2


def test_every_dcgm_field_of_the_catalogue_has_its_names_and_unit() -> None:
    fields = {metric.dcgm: metric for metric in catalog().values() if metric.dcgm is not None}
    assert set(NAMES) == set(fields)
    for field, metric in fields.items():
        assert SCALE.get(field, 1) == {203: 0.01, 204: 0.01, 156: 0.001}.get(
            field, {"Hz": 1e6, "bytes": MIB}.get(metric.unit, 1)
        )


def test_names_agree_with_those_that_the_agent_prints_itself() -> None:
    source = Path(dcgm_exporter.__file__).parents[1] / "compat.py"
    for field, names in NAMES.items():
        if f"{field}: Field(" in source.read_text():
            assert f'"DCGM_FI_{names[0]}"' in source.read_text()
