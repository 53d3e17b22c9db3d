import csv
import gzip
import io
from collections.abc import Callable
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from epochcast.agent.api import Api
from epochcast.agent.catalog import Metric, catalog
from epochcast.agent.choose import Choice
from epochcast.agent.config import Config
from epochcast.agent.exposition import registry
from epochcast.agent.processes import GpuProcess
from epochcast.agent.samples import PIECE
from epochcast.agent.sources import Attribute, Device

from ...wsgi import Answer, ask

START = 1_700_000_000.0
POWER, ENERGY, CLOCK, ACTIVE = (catalog()[name] for name in ("power", "energy", "sm_clock", "sm_active"))
FIRST = Device(0, "GPU-a", "NVIDIA H200", "gpm", (POWER, ENERGY, CLOCK), static={"cuda_cores": Attribute(16896, "nvml")})
SECOND = Device(1, "GPU-b", "Tesla T4", "nvml", (POWER,), simulated=True, unmeasured={"sm_active": "before Hopper"})


@pytest.fixture
def node(still_node: Any) -> Any:
    """2 500 ticks of GPU 0 (its clock read at 1 Hz) and three of GPU 1 by another source, the last at monotonic time 0."""
    node = still_node(FIRST, SECOND)
    first, second = node.stores
    for tick in range(2500):
        row = [300.1 + tick, 5e9 + tick / 8, 1.98e9 if tick % 10 == 0 else np.nan]
        first.add(START + tick / 10, np.array(row), 0.0)
    for tick in range(3):
        second.add(START + tick / 10, np.array([70.0]), 0.0)
    for sampler in node.samplers:
        sampler.last_success, sampler.last_sample_time = 0.0, START
    return node


@pytest.fixture
def get(node: Any) -> Callable[..., Answer]:
    api = Api(node, registry(node, Config()))
    return lambda *arguments, **headers: ask(api, *arguments, **headers)


def test_samples_are_every_tick_with_null_between_slow_readings(get: Any) -> None:
    answer = get("/api/v1/samples", "gpu=0")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    content = answer.json
    (gpu,) = content.pop("gpus")
    assert content == {"schema": "epochcast.samples/v1", "interval_s": 0.1}
    time, metrics = gpu.pop("time"), gpu.pop("metrics")
    assert gpu == {
        "index": 0,
        "instance": None,
        "label": "0",
        "uuid": "GPU-a",
        "name": "NVIDIA H200",
        "source": "gpm",
        "simulated": False,
        "unmeasured": {},
        "interval_s": 0.1,
        "missed_ticks": 0,
        "dropped_samples": 0,
        "set_back_to": None,
        "oldest": START,
    }
    assert len(time) > 2 * PIECE  # so that arrays are really put together from pieces
    assert time == [START + tick / 10 for tick in range(2500)]
    assert np.float32(metrics["power"]).tolist() == np.float32([300.1 + tick for tick in range(2500)]).tolist()
    assert metrics["energy"] == [5e9 + tick / 8 for tick in range(2500)]
    assert [tick for tick, value in enumerate(metrics["sm_clock"]) if value is not None] == list(range(0, 2500, 10))
    assert "300.1," in answer.text  # the fewest digits that restore a float32


def test_from_is_inclusive_and_to_exclusive(get: Any) -> None:
    (gpu,) = get("/api/v1/samples", f"from={START + 0.2}&to={START + 0.5}&gpu=GPU-a").json["gpus"]
    assert gpu["time"] == [START + 0.2, START + 0.3, START + 0.4]
    assert gpu["oldest"] == START


def test_gpus_and_metrics_can_be_repeated(get: Any) -> None:
    gpus = get("/api/v1/samples", "gpu=1&gpu=GPU-a&metric=sm_clock&metric=power").json["gpus"]
    assert [(gpu["index"], list(gpu["metrics"])) for gpu in gpus] == [(0, ["sm_clock", "power"]), (1, ["power"])]
    assert (gpus[1]["simulated"], gpus[1]["unmeasured"]) == (True, {"sm_active": "before Hopper"})


def test_an_instance_is_asked_for_by_its_label(still_node: Any) -> None:
    part = Device(0, "MIG-7", "NVIDIA H200 MIG 1g.18gb", "gpm", (ACTIVE,), instance=7)
    node = still_node(FIRST, part)
    node.stores[1].add(START, np.array([0.5]), 0.0)
    api = Api(node, registry(node, Config()))
    (gpu,) = ask(api, "/api/v1/samples", "gpu=0.7").json["gpus"]
    assert (gpu["index"], gpu["instance"], gpu["label"], gpu["metrics"]) == (0, 7, "0.7", {"sm_active": [0.5]})
    (gpu,) = ask(api, "/api/v1/samples", "gpu=0").json["gpus"]
    assert gpu["uuid"] == "GPU-a"


def test_csv_holds_the_same_values(get: Any) -> None:
    answer = get("/api/v1/samples", "format=csv")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/csv; charset=utf-8")
    assert answer.headers["X-Epochcast-Schema"] == "epochcast.samples/v1"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert list(rows[0]) == ["gpu", "time", "power", "energy", "sm_clock"]
    assert len(rows) == 2503
    assert rows[1] == {"gpu": "0", "time": "1700000000.1", "power": "301.1", "energy": "5000000000.125", "sm_clock": ""}
    assert rows[-1] == {"gpu": "1", "time": "1700000000.2", "power": "70.0", "energy": "", "sm_clock": ""}


def test_npy_is_one_structured_array_that_needs_no_pickle(get: Any) -> None:
    answer = get("/api/v1/samples", "format=npy")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/x-npy")
    assert answer.headers["X-Epochcast-Schema"] == "epochcast.samples/v1"
    rows = np.load(io.BytesIO(answer.raw), allow_pickle=False)
    assert rows.dtype == np.dtype([("gpu", "<U8"), ("time", "<f8"), ("power", "<f4"), ("energy", "<f8"), ("sm_clock", "<f4")])
    assert rows["gpu"].tolist() == ["0"] * 2500 + ["1"] * 3
    first, second = rows[rows["gpu"] == "0"], rows[rows["gpu"] == "1"]
    assert first["time"].tolist() == [START + tick / 10 for tick in range(2500)]
    assert first["energy"].tolist() == [5e9 + tick / 8 for tick in range(2500)]
    assert first["power"].tolist() == np.float32([300.1 + tick for tick in range(2500)]).tolist()
    assert np.flatnonzero(~np.isnan(first["sm_clock"])).tolist() == list(range(0, 2500, 10))
    assert second["power"].tolist() == [70, 70, 70]
    assert np.isnan(second["energy"]).all()


def test_an_empty_range_as_npy(get: Any) -> None:
    rows = np.load(io.BytesIO(get("/api/v1/samples", "format=npy&from=1&to=2&metric=power").raw), allow_pickle=False)
    assert (len(rows), rows.dtype.names) == (0, ("gpu", "time", "power"))


def test_a_column_called_like_one_of_ours_gets_another_header(still_node: Any) -> None:
    names = ["gpu", "time", "", "größe", "gpu_2"]
    metrics = tuple(Metric(name, unit="", tier="slow", help="A column.") for name in names)
    node = still_node(Device(0, "replay-x", "x", "replay", metrics))
    node.stores[0].add(START, np.arange(5.0), 0.0)
    api = Api(node, registry(node, Config()))
    expected = ("gpu", "time", "gpu_2", "time_2", "_2", "größe", "gpu_2_2")
    header, row = csv.reader(io.StringIO(ask(api, "/api/v1/samples", "format=csv").text))
    assert tuple(header) == expected
    assert row == ["0", "1700000000.0", "0.0", "1.0", "2.0", "3.0", "4.0"]
    (record,) = np.load(io.BytesIO(ask(api, "/api/v1/samples", "format=npy").raw), allow_pickle=False)
    assert record.dtype.names == expected
    assert record.tolist() == ("0", START, 0.0, 1.0, 2.0, 3.0, 4.0)


@pytest.mark.parametrize("form", ["json", "csv", "npy"])
def test_samples_are_compressed_for_those_who_ask(get: Any, form: str) -> None:
    plain = get("/api/v1/samples", f"format={form}")
    packed = get("/api/v1/samples", f"format={form}", accept_encoding="br, gzip;q=0.9")
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
    assert gzip.decompress(packed.raw) == plain.raw
    assert len(packed.raw) < len(plain.raw) / 2


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("metric=watts", "unknown metric 'watts'; choose from power, energy, sm_clock"),
        ("metric=sm_active", "metric 'sm_active' is not measured here (before Hopper)"),
        ("gpu=1&metric=energy", "metric 'energy' is not measured here; choose from power"),
        ("gpu=7", "unknown gpu '7'; this agent reads 0 (GPU-a), 1 (GPU-b)"),
        ("from=yesterday", "parameter 'from' is 'yesterday'; give unix seconds"),
        ("to=nan", "parameter 'to' is 'nan'; give unix seconds"),
        ("from=", "parameter 'from' is ''"),
        ("from=1&from=2", "parameter 'from' was given 2 times"),
        ("from=2&to=1", "'from' (2.0) is after 'to' (1.0)"),
        ("format=xml", "unknown format 'xml'; choose json, csv, npy"),
        ("metrics=power", "unknown parameter 'metrics'; known: from, to, gpu, metric, format"),
    ],
)
def test_a_bad_query_is_400_and_one_sentence(get: Any, query: str, sentence: str) -> None:
    answer = get("/api/v1/samples", query)
    assert (answer.status, answer.headers["Content-Type"]) == (400, "application/json")
    assert list(answer.json) == ["error"]
    assert sentence in answer.json["error"]


def test_catalogue(get: Any) -> None:
    answer = get("/api/v1/metrics").json
    assert answer["schema"] == "epochcast.metrics/v1"
    rows = {row["name"]: row for row in answer["metrics"]}
    assert list(rows) == list(catalog())
    assert {name for name, row in rows.items() if row["measured"]} == {"power", "energy", "sm_clock"}
    assert (rows["sm_active"]["paper"], rows["sm_active"]["dcgm"], rows["sm_active"]["gpm"]) == ("SMACT", 1002, 2)


def test_gpus_with_what_is_known_of_each_and_why_its_source_was_chosen(get: Any, node: Any) -> None:
    node.facts["GPU-a"] = FIRST.static | {"l2_cache": Attribute(62914560, "cuda")}
    node.choices = (
        Choice("GPU-a", "0", "NVIDIA H200", "gpm", "every metric"),
        Choice("GPU-b", "1", "Tesla T4", "nvml", "utilisation", {"gpm": "before Hopper"}),
    )
    answer = get("/api/v1/gpus").json
    assert answer["schema"] == "epochcast.gpus/v1"
    assert answer["gpus"][0] == {
        "index": 0,
        "instance": None,
        "label": "0",
        "uuid": "GPU-a",
        "name": "NVIDIA H200",
        "source": "gpm",
        "simulated": False,
        "unmeasured": {},
        "static": {"cuda_cores": {"value": 16896, "source": "nvml"}, "l2_cache": {"value": 62914560, "source": "cuda"}},
        "lag_s": 0.0,
        "interval_s": 0.1,
        "retention_s": 600.0,
        "why": "every metric",
        "refused": {},
    }
    assert (answer["gpus"][1]["why"], answer["gpus"][1]["refused"]) == ("utilisation", {"gpm": "before Hopper"})


def test_processes_only_where_they_are_watched(get: Any, node: Any) -> None:
    answer = get("/api/v1/processes")
    assert (answer.status, "set processes = 1" in answer.json["error"]) == (404, True)

    seen = GpuProcess("0", "GPU-a", 4711, "python", "ada", "", "99", "", 2**30, 0.5)
    watcher: Any = SimpleNamespace(processes=lambda: [seen])
    answer = ask(Api(node, registry(node, Config()), watcher), "/api/v1/processes")
    assert answer.json == {"schema": "epochcast.processes/v1", "processes": [asdict(seen)]}


def test_health_is_by_the_monotonic_clock(get: Any, node: Any) -> None:
    answer = get("/healthz")
    assert (answer.status, answer.json["status"], answer.json["last_reading_age_s"]) == (200, "ok", 0)
    assert (answer.json["source"], answer.headers["Cache-Control"]) == ("gpm,nvml", "no-store")
    node.clock.wait(4.0)
    node.stores[1].add(START + 4, np.array([70.0]), 4.0)
    node.clock.wait(4.0)  # GPU 0 says nothing any more, but the other source's samples flow
    assert get("/healthz").json["status"] == "ok"
    node.clock.wait(1.1)  # five seconds of silence, though the newest sample's time lies minutes ahead
    answer = get("/healthz")
    assert (answer.status, answer.json["status"]) == (503, "no samples")
    for sampler in node.samplers:
        sampler.finished = True
    answer = get("/healthz")
    assert (answer.status, answer.json["status"]) == (200, "replay finished")


def test_a_source_that_promises_rarer_samples_is_healthy_for_longer(get: Any, node: Any) -> None:
    node.samplers[0].source.silent_after = 90.0
    node.clock.wait(60.0)
    assert get("/healthz").status == 200
    assert [gpu["gpu"] for gpu in get("/readyz").json["missing"]] == ["1"]


def test_ready_is_every_gpu(still_node: Any) -> None:
    node = still_node(FIRST, SECOND)
    api = Api(node, registry(node, Config()))
    node.stores[0].add(START, np.array([300.0, 1.0, 2.0]), 0.0)
    assert ask(api, "/healthz").status == 200
    answer = ask(api, "/readyz")
    assert (answer.status, answer.json["status"]) == (503, "GPUs missing")
    assert answer.json["missing"] == [{"gpu": "1", "uuid": "GPU-b", "name": "Tesla T4", "reason": "no sample yet"}]
    node.stores[1].add(START, np.array([70.0]), 0.0)
    assert ask(api, "/readyz").json == {"status": "ready", "missing": [], "expected": None, "present": 2}
    node.clock.wait(5.1)
    node.stores[1].add(START + 5, np.array([70.0]), 5.1)
    (missing,) = ask(api, "/readyz").json["missing"]
    assert (missing["gpu"], missing["reason"]) == ("0", "no sample for 5.1 s")
    node.samplers[0].finished = node.samplers[1].finished = True
    assert ask(api, "/readyz").status == 200


def test_a_gpu_that_is_gone_makes_the_node_not_ready(get: Any, node: Any, still_node: Any) -> None:
    node.gone = [still_node(Device(2, "GPU-c", "NVIDIA H200", "gpm", (POWER,))).stores[0]]
    node.gone[0].add(START, np.array([1.0]), 0.0)
    assert get("/healthz").status == 200
    assert [gpu["gpu"] for gpu in get("/readyz").json["missing"]] == ["2"]


def test_a_node_without_sources_is_neither_healthy_nor_ready(get: Any, node: Any) -> None:
    node.samplers = ()
    assert get("/healthz").status == 503
    assert get("/readyz").json["status"] == "no GPU"
    assert get("/metrics").status == 200
    assert get("/api/v1/samples").json == {"schema": "epochcast.samples/v1", "interval_s": None, "gpus": []}


def test_a_page_is_openmetrics_or_compressed_for_those_who_ask(get: Any) -> None:
    plain = get("/metrics")
    assert plain.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    # What Prometheus 2 sends.
    accept = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;q=0.5"
    modern = get("/metrics", accept=accept, accept_encoding="gzip")
    assert modern.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert modern.headers["Content-Encoding"] == "gzip"
    families = {family.name: family.type for family in parse_openmetrics(modern.text)}
    assert families["epochcast_gpu_energy_joules"] == "counter"
    assert families["epochcast_agent_tick_seconds"] == "histogram"
    assert modern.text.endswith("# EOF\n")


def test_a_page_of_named_samples_only(get: Any) -> None:
    text = get("/metrics", "name[]=epochcast_gpu_up&name[]=process_cpu_seconds_total").text
    samples = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line[0] != "#"}
    assert samples == {"epochcast_gpu_up", "process_cpu_seconds_total"}
    assert text.count("# TYPE") == 2
