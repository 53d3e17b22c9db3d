import csv
import io
import json
from collections.abc import Callable
from typing import Any
from wsgiref.util import setup_testing_defaults

import numpy as np
import pytest

from epochcast.agent.api import PIECE, Api
from epochcast.agent.catalog import catalog
from epochcast.agent.exposition import registry
from epochcast.agent.sampler import Sampler
from epochcast.agent.sources import Attribute, Device
from epochcast.agent.store import DeviceStore

START = 1_700_000_000.0
POWER, ENERGY, CLOCK = (catalog()[name] for name in ("power", "energy", "sm_clock"))


class Recorded:
    """A source whose rows the test has put into the stores itself."""

    name = "nvml"
    hertz = 10.0
    interval = 0.1
    silent_after = 1.0
    recorded_rows = None
    finished = False
    devices = (
        Device(0, "GPU-a", "NVIDIA H200", (POWER, ENERGY, CLOCK), {"cuda_cores": Attribute(16896, "nvml")}),
        Device(1, "GPU-b", "Tesla T4", (POWER,), simulated=True),
    )

    def read(self, _: Any) -> list[Any]:
        return []

    def close(self) -> None:
        pass


@pytest.fixture
def world(fake_clock: Any) -> tuple[Api, Sampler]:
    """An API over 2 500 ticks of GPU 0 (its clock read at 1 Hz) and three of GPU 1, the last at monotonic time 0."""
    source = Recorded()
    sampler = Sampler(source, [DeviceStore(device, 6000, 5.0) for device in source.devices], fake_clock(START, until=1e9))
    first, second = sampler.stores
    for tick in range(2500):
        row = [300.1 + tick, 5e9 + tick / 8, 1.98e9 if tick % 10 == 0 else np.nan]
        first.add(START + tick / 10, np.array(row), 0.0)
    for tick in range(3):
        second.add(START + tick / 10, np.array([70.0]), 0.0)
    sampler.last_success = 0.0
    return Api(sampler, registry(sampler, 5.0)), sampler


@pytest.fixture
def get(world: tuple[Api, Sampler]) -> Callable[..., tuple[int, str, str]]:
    def ask(path: str, query: str = "", method: str = "GET") -> tuple[int, str, str]:
        """Return (status, content type, body)."""
        environ: dict[str, Any] = {}
        setup_testing_defaults(environ)
        environ |= {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": method}
        answer: dict[str, Any] = {}

        def start_response(status: str, headers: list[tuple[str, str]]) -> None:
            answer.update(status=int(status.split()[0]), kind=dict(headers).get("Content-Type"))

        body = b"".join(world[0](environ, start_response)).decode()
        return answer["status"], answer["kind"], body

    return ask


def test_samples_are_every_tick_with_null_between_slow_readings(get: Any) -> None:
    status, kind, body = get("/api/v1/samples", "gpu=0")
    assert (status, kind) == (200, "application/json")
    answer = json.loads(body)
    (gpu,) = answer.pop("gpus")
    assert answer == {"schema": "epochcast.samples/v1", "interval_s": 0.1}
    time, metrics = gpu.pop("time"), gpu.pop("metrics")
    assert gpu == {
        "index": 0,
        "uuid": "GPU-a",
        "name": "NVIDIA H200",
        "source": "nvml",
        "simulated": False,
        "missed_ticks": 0,
        "oldest": START,
    }
    assert len(time) > 2 * PIECE  # so that arrays are really put together from pieces
    assert time == [START + tick / 10 for tick in range(2500)]
    assert np.float32(metrics["power"]).tolist() == np.float32([300.1 + tick for tick in range(2500)]).tolist()
    assert metrics["energy"] == [5e9 + tick / 8 for tick in range(2500)]
    assert [tick for tick, value in enumerate(metrics["sm_clock"]) if value is not None] == list(range(0, 2500, 10))
    assert "300.1," in body  # the fewest digits that restore a float32


def test_from_is_inclusive_and_to_exclusive(get: Any) -> None:
    (gpu,) = json.loads(get("/api/v1/samples", f"from={START + 0.2}&to={START + 0.5}&gpu=GPU-a")[2])["gpus"]
    assert gpu["time"] == [START + 0.2, START + 0.3, START + 0.4]
    assert gpu["oldest"] == START


def test_a_range_without_samples_is_empty(get: Any) -> None:
    (gpu,) = json.loads(get("/api/v1/samples", "from=1&to=2&gpu=0")[2])["gpus"]
    assert (gpu["time"], gpu["metrics"]["power"]) == ([], [])


def test_gpus_and_metrics_can_be_repeated(get: Any) -> None:
    gpus = json.loads(get("/api/v1/samples", "gpu=1&gpu=GPU-a&metric=sm_clock&metric=power")[2])["gpus"]
    assert [(gpu["index"], list(gpu["metrics"])) for gpu in gpus] == [(0, ["sm_clock", "power"]), (1, ["power"])]
    assert gpus[1]["simulated"] is True


def test_csv_holds_the_same_values(get: Any) -> None:
    status, kind, body = get("/api/v1/samples", "format=csv")
    assert (status, kind) == (200, "text/csv; charset=utf-8")
    rows = list(csv.DictReader(io.StringIO(body)))
    assert list(rows[0]) == ["gpu", "time", "power", "energy", "sm_clock"]
    assert len(rows) == 2503
    assert rows[1] == {"gpu": "0", "time": "1700000000.1", "power": "301.1", "energy": "5000000000.125", "sm_clock": ""}
    assert rows[-1] == {"gpu": "1", "time": "1700000000.2", "power": "70.0", "energy": "", "sm_clock": ""}


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("metric=watts", "unknown metric 'watts'; source 'nvml' gives power, energy, sm_clock"),
        ("metric=sm_active", "metric 'sm_active' is not measured here"),
        ("gpu=1&metric=energy", "metric 'energy' is not measured here; source 'nvml' gives power"),
        ("gpu=7", "unknown gpu '7'; this agent reads 0 (GPU-a), 1 (GPU-b)"),
        ("from=yesterday", "parameter 'from' is 'yesterday'; give unix seconds"),
        ("to=nan", "parameter 'to' is 'nan'; give unix seconds"),
        ("from=", "parameter 'from' is ''"),
        ("from=1&from=2", "parameter 'from' was given 2 times"),
        ("from=2&to=1", "'from' (2.0) lies after 'to' (1.0)"),
        ("format=xml", "unknown format 'xml'; choose json or csv"),
        ("metrics=power", "unknown parameter 'metrics'; known: from, to, gpu, metric, format"),
    ],
)
def test_a_bad_query_is_400_and_one_sentence(get: Any, query: str, sentence: str) -> None:
    status, kind, body = get("/api/v1/samples", query)
    assert (status, kind) == (400, "application/json")
    answer = json.loads(body)
    assert list(answer) == ["error"]
    assert sentence in answer["error"]


def test_catalogue_and_gpus(get: Any) -> None:
    answer = json.loads(get("/api/v1/metrics")[2])
    assert answer["schema"] == "epochcast.metrics/v1"
    rows = {row["name"]: row for row in answer["metrics"]}
    assert list(rows) == list(catalog())
    assert {name for name, row in rows.items() if row["measured"]} == {"power", "energy", "sm_clock"}
    assert (rows["sm_active"]["paper"], rows["sm_active"]["dcgm"], rows["sm_active"]["gpm"]) == ("SMACT", 1002, 2)
    answer = json.loads(get("/api/v1/gpus")[2])
    assert answer["schema"] == "epochcast.gpus/v1"
    assert answer["gpus"][0] == {
        "index": 0,
        "uuid": "GPU-a",
        "name": "NVIDIA H200",
        "source": "nvml",
        "simulated": False,
        "static": {"cuda_cores": {"value": 16896, "source": "nvml"}},
    }


def test_health_is_by_the_monotonic_clock(get: Any, world: tuple[Api, Sampler]) -> None:
    _, sampler = world
    status, _, body = get("/healthz")
    assert (status, json.loads(body)["status"]) == (200, "ok")
    sampler.clock.wait(5.1)  # five seconds of silence, though the newest sample's time lies minutes ahead
    status, _, body = get("/healthz")
    assert (status, json.loads(body)["status"]) == (503, "no samples")
    sampler.finished = True
    status, _, body = get("/healthz")
    assert (status, json.loads(body)["status"]) == (200, "replay finished")


def test_other_paths_and_methods(get: Any) -> None:
    assert get("/")[0] == get("/api/v1/sample")[0] == 404
    assert get("/api/v1/samples", method="POST")[0] == 405
    assert get("/metrics", method="POST")[0] == 405
    assert get("/metrics")[0] == 200
