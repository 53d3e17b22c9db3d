"""Remote write against a local receiver that decodes what it gets and answers as told."""

import logging
import math
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from epochcast.agent.catalog import Metric, catalog
from epochcast.agent.config import Push
from epochcast.agent.errors import InputError
from epochcast.agent.exposition import DeviceCollector
from epochcast.agent.push import PushCollector, Pusher
from epochcast.agent.push.backlog import Backlog, Batch
from epochcast.agent.push.wire import STALE, Wire
from epochcast.agent.sampler import SystemClock
from epochcast.agent.sources import Device
from epochcast.agent.store import DeviceStore

cramjam = pytest.importorskip("cramjam", reason="the extra agent-push is not installed")

START = 1_790_000_000.0
Samples = dict[tuple[tuple[str, str], ...], list[tuple[int, float]]]


def make_store(
    *names: str, uuid: str = "GPU-a", index: int = 0, capacity: int = 6000, instance: int | None = None
) -> DeviceStore:
    metrics = tuple(catalog()[name] for name in names)
    device = Device(index=index, uuid=uuid, name="NVIDIA H200", source="test", metrics=metrics, instance=instance)
    return DeviceStore(device, capacity, 5.0)


def make_node(*stores: DeviceStore, silent_after: float = 30.0) -> Any:
    """As much of a node as the pusher looks at."""
    return SimpleNamespace(samplers=(SimpleNamespace(source=SimpleNamespace(silent_after=silent_after), stores=list(stores)),))


def add(store: DeviceStore, first: int, rows: int, start: float = START) -> None:
    """Add rows of consecutive ticks, each value telling its tick and its column."""
    for tick in range(first, first + rows):
        store.add(
            start + tick / 10, np.array([tick + column / 8 for column in range(len(store.device.metrics))]), time.monotonic()
        )


def quick(**settings: Any) -> Push:
    """Return settings with an interval below what users may set, which would make every test here a second longer."""
    push = Push(**settings)
    object.__setattr__(push, "interval", 0.1)
    return push


class Receiver:
    """A store: keeps what it accepts; ``answers`` are (status, headers, text) for the next requests, then 204."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.answers: list[tuple[int, dict[str, str], str]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.connections = set[Any]()
        self.accepted: Samples = {}
        self.hold = threading.Event()
        self.hold.set()
        self._request = Wire().request()._message.__class__
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.times.append(time.monotonic())
                receiver.headers.append({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
                receiver.connections.add(self.client_address)
                receiver.hold.wait()
                status, headers, text = receiver.answers.pop(0) if receiver.answers else (204, {}, "")
                if status < 300:
                    receiver.accept(body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://localhost:{self.server.server_port}/api/v1/write?tenant=7"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def accept(self, body: bytes) -> None:
        message = self._request.FromString(bytes(cramjam.snappy.decompress_raw(body)))
        for series in message.timeseries:
            labels = tuple((label.name, label.value) for label in series.labels)
            kept = self.accepted.setdefault(labels, [])
            kept.extend((sample.timestamp, sample.value) for sample in series.samples)
            assert [stamp for stamp, _ in kept] == sorted({stamp for stamp, _ in kept}), "samples out of order"

    def values(self, metric: str, **labels: str) -> list[tuple[int, float]]:
        """Return the samples of one series without the marker of its end."""
        wanted = {"__name__": metric, **labels}
        (found,) = (kept for series, kept in self.accepted.copy().items() if wanted.items() <= dict(series).items())
        return [(stamp, value) for stamp, value in found if not math.isnan(value)]

    @property
    def samples(self) -> int:
        return sum(map(len, self.accepted.copy().values()))

    @property
    def markers(self) -> int:
        return sum(math.isnan(value) for kept in self.accepted.copy().values() for _, value in kept)


@pytest.fixture
def receive() -> Iterator[Callable[..., Receiver]]:
    with ExitStack() as stack:

        def start(context: ssl.SSLContext | None = None) -> Receiver:
            receiver = Receiver(context)
            stack.callback(receiver.server.server_close)
            stack.callback(receiver.server.shutdown)
            stack.callback(receiver.hold.set)
            return receiver

        yield start


@pytest.fixture
def receiver(receive: Callable[..., Receiver]) -> Receiver:
    return receive()


def until(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)


def push_all(node: Any, push: Push, hostname: str = "node7") -> Pusher:
    pusher = Pusher(node, push, hostname)
    pusher.start()
    pusher.stop()
    return pusher


def figures(pusher: Pusher) -> dict[str, float]:
    """Return what the pusher's families say, by name and the value of their one label."""
    registry = CollectorRegistry()
    registry.register(PushCollector(pusher))
    return {
        " ".join((sample.name.removeprefix("epochcast_agent_push_"), *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }


def test_every_sample_arrives_with_its_own_time_and_the_names_of_the_metrics_page(receiver: Receiver) -> None:
    store = make_store("sm_active", "power", "energy", instance=3)
    add(store, 0, 20)
    store.add(START + 2, np.array([math.nan, 1 / 3, 12_345_678_901.25]), 0.0)
    pusher = push_all(make_node(store), quick(url=receiver.url, labels={"cluster": "c1", "instance": "", "rack": "r9"}))
    stamps = [int(START * 1000) + 100 * tick for tick in range(21)]
    assert receiver.values("epochcast_gpu_sm_active_ratio") == list(zip(stamps[:20], map(float, range(20)), strict=True))
    power = receiver.values("epochcast_gpu_power_watts")
    assert power[:20] == list(zip(stamps[:20], (tick + 1 / 8 for tick in range(20)), strict=True))
    assert power[20] == (stamps[20], float(np.float32(1 / 3)))
    assert receiver.values("epochcast_gpu_energy_joules_total")[20] == (stamps[20], 12_345_678_901.25)
    assert ("epochcast_gpu_power_watts", "0.3", "GPU-a", "NVIDIA H200", "c1", "epochcast-agent", "r9") in {
        tuple(dict(series)[name] for name in ("__name__", "gpu", "uuid", "name", "cluster", "job", "rack"))
        for series in receiver.accepted
    }
    for series in receiver.accepted:
        assert list(series) == sorted(series)
        assert "instance" not in dict(series)  # set to nothing by the configuration
    assert receiver.samples == 62 + 3 == figures(pusher)["samples_total"]
    (headers,) = receiver.headers
    assert headers["path"] == "/api/v1/write?tenant=7"
    assert headers["content-encoding"] == "snappy"
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["x-prometheus-remote-write-version"] == "0.1.0"
    assert headers["user-agent"].startswith("epochcast-agent/")


def test_the_host_name_stands_where_a_scrape_puts_its_target(receiver: Receiver) -> None:
    store = make_store("power")
    add(store, 0, 1)
    push_all(make_node(store), quick(url=receiver.url))
    assert receiver.values("epochcast_gpu_power_watts", instance="node7", job="epochcast-agent")


def test_ratios_are_rounded_to_1_in_1024_on_request(receiver: Receiver) -> None:
    store = make_store("sm_active", "power")
    for tick, value in enumerate(np.linspace(0, 1, 50)):
        store.add(START + tick / 10, np.array([value, value]), 0.0)
    push_all(make_node(store), quick(url=receiver.url, quantise=True))
    ratios = np.array([value for _, value in receiver.values("epochcast_gpu_sm_active_ratio")])
    assert (ratios * 1024 == np.rint(ratios * 1024)).all()
    assert np.abs(ratios - np.linspace(0, 1, 50)).max() <= 1 / 2048
    assert [value for _, value in receiver.values("epochcast_gpu_power_watts")] == np.linspace(0, 1, 50, dtype="f4").tolist()


def test_a_long_history_goes_in_many_requests_over_one_connection(receiver: Receiver) -> None:
    stores = [make_store("sm_active", "power", "energy", uuid=f"GPU-{index}", index=index) for index in range(4)]
    for store in stores:
        add(store, 0, 2500)
    pusher = push_all(make_node(*stores), quick(url=receiver.url))
    assert receiver.samples == 4 * 3 * (2500 + 1) == figures(pusher)["samples_total"]
    assert len(receiver.headers) == 4
    assert len(receiver.connections) == 1
    assert figures(pusher)["requests_total 204"] == 4


def test_rows_that_come_later_are_sent_once(receiver: Receiver) -> None:
    store = make_store("power")
    add(store, 0, 5)
    pusher = Pusher(make_node(store), quick(url=receiver.url))
    pusher.start()
    until(lambda: receiver.samples == 5)
    add(store, 5, 5)
    until(lambda: receiver.samples == 10)
    pusher.stop()
    assert [value for _, value in receiver.values("epochcast_gpu_power_watts")] == list(range(10))
    assert receiver.markers == 1


def test_a_server_error_is_tried_again_oldest_first(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    receiver.answers = [(500, {}, "no disk\nmore"), (503, {}, "")]
    store = make_store("power")
    add(store, 0, 5)
    pusher = Pusher(make_node(store), quick(url=receiver.url))
    pusher.start()
    until(lambda: receiver.samples == 5)
    pusher.stop()
    assert [value for _, value in receiver.values("epochcast_gpu_power_watts")] == list(range(5))
    seen = figures(pusher)
    assert (seen["retries_total"], seen["requests_total 500"], seen["requests_total 503"]) == (2, 1, 1)
    assert (seen["queue_samples"], seen["dropped_samples_total"], seen["rejected_samples_total"]) == (0, 0, 0)
    assert seen["last_success_timestamp_seconds"] == pytest.approx(time.time(), abs=60)
    (message,) = caplog.messages
    assert "HTTP 500: no disk)" in message
    assert "tenant" not in message  # a query may hold a secret


def test_a_store_that_asks_for_time_is_left_alone_for_that_long(receiver: Receiver) -> None:
    receiver.answers = [(429, {"Retry-After": "2"}, "slow down")]
    store = make_store("power")
    add(store, 0, 5)
    pusher = Pusher(make_node(store), quick(url=receiver.url))
    pusher.start()
    until(lambda: receiver.samples == 5)
    pusher.stop()
    assert receiver.times[1] - receiver.times[0] >= 2
    assert figures(pusher)["requests_total 429"] == 1


@pytest.mark.parametrize("header", ["soon", "-5", "99999999999", "Fri, 31 Dec 1999 23:59:59 GMT"])
def test_a_strange_retry_after_delays_neither_the_stop_nor_for_ever(receiver: Receiver, header: str) -> None:
    receiver.answers = [(429, {"Retry-After": header}, "")]
    store = make_store("power")
    add(store, 0, 5)
    pusher = Pusher(make_node(store), quick(url=receiver.url))
    pusher.start()
    until(lambda: pusher.sender.retries or receiver.samples)
    pusher.stop()
    assert receiver.samples == 6


def test_what_the_store_refuses_is_counted_logged_once_and_not_sent_again(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers = [(400, {}, "out of order sample\nsecond line"), (413, {}, "")]
    store = make_store("power")
    add(store, 0, 5)
    pusher = Pusher(make_node(store), quick(url=receiver.url))
    pusher.start()
    for first, code in ((5, "400"), (10, "413"), (15, "204")):
        until(lambda code=code: figures(pusher).get(f"requests_total {code}"))
        add(store, first, 5)
    pusher.stop()
    assert [value for _, value in receiver.values("epochcast_gpu_power_watts")] == list(range(10, 20))
    seen = figures(pusher)
    assert (seen["rejected_samples_total"], seen["samples_total"], seen["retries_total"]) == (10, 10 + 1, 0)
    assert [message for message in caplog.messages if "HTTP 400: out of order sample)" in message] == caplog.messages


def test_a_redirect_is_refused_for_it_would_take_the_credentials_elsewhere(receiver: Receiver) -> None:
    receiver.answers = [(307, {"Location": "/elsewhere"}, "")]
    store = make_store("power")
    add(store, 0, 5)
    assert figures(push_all(make_node(store), quick(url=receiver.url)))["rejected_samples_total"] == 6
    assert len(receiver.headers) == 1


def test_without_a_store_the_queue_keeps_the_newest_and_counts_the_rest(receive: Callable[..., Receiver]) -> None:
    receiver = receive()
    receiver.answers = [(500, {}, "")] * 10_000
    store = make_store("power", "energy")
    pusher = Pusher(make_node(store), quick(url=receiver.url, queue=1000))
    pusher.start()
    produced = 0
    while figures(pusher)["dropped_samples_total"] < 500:
        add(store, produced // 2, 150)
        produced += 300
        time.sleep(0.1)
    receiver.answers.clear()
    until(lambda: receiver.samples)
    pusher.stop()
    seen = figures(pusher)
    assert seen["queue_samples"] == 0
    assert seen["samples_total"] == receiver.samples
    assert seen["samples_total"] + seen["dropped_samples_total"] == produced + 2  # and the ends of two series
    # The receiver has checked the order. A batch on its way when others made room is older than they were.
    kept = [value for _, value in receiver.values("epochcast_gpu_power_watts")]
    assert kept[-250:] == list(range(produced // 2 - 250, produced // 2)), "not the newest"


def test_stop_waits_for_no_hanging_store(receiver: Receiver) -> None:
    receiver.hold.clear()
    store = make_store("power")
    add(store, 0, 5)
    pusher = Pusher(make_node(store), quick(url=receiver.url))
    pusher.start()
    until(lambda: receiver.headers)
    add(store, 5, 5)
    pusher.stop()
    assert not receiver.hold.is_set()
    assert pusher.backlog.samples == 11, "its two rows of five, and the end of the series"


def test_a_silent_device_ends_its_series_once_and_may_come_back(receiver: Receiver) -> None:
    quiet, loud = make_store("power"), make_store("power", uuid="GPU-b", index=1)
    add(quiet, 0, 5)
    pusher = Pusher(make_node(quiet, loud, silent_after=0.6), quick(url=receiver.url))
    pusher.start()
    ticks = 0
    while receiver.markers < 1 or ticks < 12:
        add(loud, ticks, 1)
        ticks += 1
        time.sleep(0.1)
    add(quiet, 50, 5)
    until(lambda: len(receiver.values("epochcast_gpu_power_watts", uuid="GPU-a")) == 10)
    assert receiver.markers == 1
    pusher.stop()
    assert receiver.markers == 3
    (series,) = (kept for labels, kept in receiver.accepted.items() if dict(labels)["uuid"] == "GPU-a")
    ends = [position for position, (_, value) in enumerate(series) if math.isnan(value)]
    assert ends == [5, 11]
    assert series[5][0] == int(START * 1000) + 401
    assert len(receiver.values("epochcast_gpu_power_watts", uuid="GPU-b")) == ticks


def test_the_marker_is_the_one_nan_that_prometheus_knows() -> None:
    request = Wire().request()
    request.add(b"", [1], [STALE])
    assert bytes.fromhex("020000000000f07f") in request._message.SerializeToString()


def test_a_fallback_to_another_source_loses_and_repeats_nothing(receiver: Receiver) -> None:
    old = make_store("power", "sm_active")
    node = make_node(old)
    pusher = Pusher(node, quick(url=receiver.url))
    pusher.start()
    add(old, 0, 10)
    until(lambda: receiver.samples == 20)
    add(old, 10, 5)  # not read when the node is rebuilt
    new = make_store("power", capacity=12)
    add(new, 3, 12)  # took over what fits
    node.samplers = make_node(new).samplers
    until(lambda: receiver.markers == 1)
    add(new, 15, 5)
    until(lambda: len(receiver.values("epochcast_gpu_power_watts")) == 20)
    pusher.stop()
    assert [value for _, value in receiver.values("epochcast_gpu_power_watts")] == list(range(20))
    assert len(receiver.values("epochcast_gpu_sm_active_ratio")) == 15
    assert receiver.markers == 2
    seen = figures(pusher)
    assert (seen["lost_rows_total"], seen["out_of_order_samples_total"]) == (0, 0)


def test_new_settings_repeat_nothing_and_lose_nothing_that_waited(receive: Callable[..., Receiver]) -> None:
    receiver = receive()
    receiver.answers = [(204, {}, "")] + [(503, {}, "")] * 100
    store = make_store("power")
    add(store, 0, 5)
    old = Pusher(make_node(store), quick(url=receiver.url))
    old.start()
    until(lambda: receiver.samples == 5)
    add(store, 5, 5)
    until(lambda: old.sender.retries)
    old.stop()
    assert old.backlog.samples == 6
    receiver.answers.clear()
    add(store, 10, 5)
    new = Pusher(make_node(store), quick(url=receiver.url, labels={"rack": "r9"}))
    new.take_over(old)
    new.start()
    new.stop()
    assert [value for _, value in receiver.values("epochcast_gpu_power_watts", rack="r9")] == list(range(10, 15))
    before = [value for labels, kept in receiver.accepted.items() if "rack" not in dict(labels) for _, value in kept]
    assert before[:10] == list(range(10))
    seen = figures(new)
    assert (seen["samples_total"], seen["queue_samples"], seen["out_of_order_samples_total"]) == (15 + 2, 0, 0)
    assert seen["requests_total 503"] >= 2


def test_a_gpu_that_left_the_node_ends_and_what_it_still_held_is_sent(receiver: Receiver) -> None:
    store = make_store("power")
    node = make_node(store)
    pusher = Pusher(node, quick(url=receiver.url))
    pusher.start()
    add(store, 0, 5)
    until(lambda: receiver.samples == 5)
    add(store, 5, 5)
    node.samplers = ()
    until(lambda: receiver.markers == 1)
    node.samplers = make_node(store).samplers
    add(store, 10, 5)
    until(lambda: len(receiver.values("epochcast_gpu_power_watts")) == 15)
    pusher.stop()
    assert [value for _, value in receiver.values("epochcast_gpu_power_watts")] == list(range(15))


def test_rows_overwritten_before_they_were_read_are_counted(receiver: Receiver) -> None:
    store = make_store("power", capacity=10)
    pusher = Pusher(make_node(store), quick(url=receiver.url))
    pusher.start()
    add(store, 0, 10)
    until(lambda: receiver.samples == 10)
    for tick in range(10, 35):
        add(store, tick, 1)
    until(lambda: len(receiver.values("epochcast_gpu_power_watts")) + pusher.lost_rows == 35)
    pusher.stop()


def test_a_clock_set_back_sends_nothing_out_of_order(receiver: Receiver) -> None:
    store = make_store("power")
    pusher = Pusher(make_node(store), quick(url=receiver.url))
    pusher.start()
    add(store, 0, 100)
    until(lambda: receiver.samples == 100)
    add(store, 50, 60)
    pusher.stop()
    assert [value for _, value in receiver.values("epochcast_gpu_power_watts")] == list(range(110))
    assert figures(pusher)["out_of_order_samples_total"] == 50


def test_a_clock_that_was_a_day_ahead_does_not_silence_the_node_for_a_day(receiver: Receiver) -> None:
    store = make_store("power")
    add(store, 0, 5)
    pusher = Pusher(make_node(store), quick(url=receiver.url))
    pusher.start()
    until(lambda: receiver.samples == 5)
    receiver.accepted.clear()
    add(store, 0, 5, START - 86400)
    pusher.stop()
    assert receiver.values("epochcast_gpu_power_watts")[0] == (int((START - 86400) * 1000), 0.0)
    assert receiver.samples == 6


def certificate(folder: Path, name: str) -> ssl.SSLContext:
    key, pem = folder / f"{name}.key", folder / f"{name}.pem"
    command: list[str | Path] = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", pem]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl to make a certificate with")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, key)
    return context


def test_tls_is_verified_and_basic_authentication_sent(receive: Callable[..., Receiver], tmp_path: Path) -> None:
    receiver = receive(certificate(tmp_path, "right"))
    certificate(tmp_path, "wrong")
    (tmp_path / "password").write_text("pä:ss\n")
    store = make_store("power")
    add(store, 0, 5)
    node = make_node(store)
    settings = {"url": receiver.url, "user": "me", "password_file": tmp_path / "password"}
    for ca in (tmp_path / "wrong.pem", None):
        pusher = push_all(node, quick(**settings, ca=ca))
        assert figures(pusher)["requests_total error"] >= 1
        assert receiver.headers == []
    push_all(node, quick(**settings, ca=tmp_path / "right.pem"))
    assert receiver.samples == 6
    assert receiver.headers[0]["authorization"] == "Basic bWU6cMOkOnNz"


def test_a_rotated_token_is_used_and_a_missing_one_waited_for(receiver: Receiver, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    store = make_store("power")
    add(store, 0, 5)
    pusher = Pusher(make_node(store), quick(url=receiver.url, token_file=token))
    pusher.start()
    until(lambda: receiver.samples == 5)
    token.unlink()
    add(store, 5, 5)
    until(lambda: pusher.sender.requests["error"])
    token.write_text("second")
    until(lambda: receiver.samples == 10)
    pusher.stop()
    assert receiver.headers[0]["authorization"] == "Bearer first"
    assert receiver.headers[1]["authorization"] == "Bearer second"


def test_a_secret_that_no_header_can_hold_stays_out_of_the_log(
    receiver: Receiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    store = make_store("power")
    add(store, 0, 5)
    pusher = Pusher(make_node(store), quick(url=receiver.url, token_file=token))
    token.write_text("s3cr\n3t")
    pusher.start()
    pusher.stop()
    assert figures(pusher)["requests_total error"] == 1
    assert pusher.backlog.samples == 6
    assert "must hold one line" in caplog.text
    assert "3t" not in caplog.text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"labels": {"uuid": "x"}}, "push.labels sets 'uuid'"),
        ({"url": "http://me:secret@store/write"}, "push.url holds a user name"),
        ({"token_file": Path("/nowhere/token")}, "push.token_file is /nowhere/token, which cannot be read"),
        ({"user": "me", "password_file": Path("/nowhere/pw")}, "push.password_file is /nowhere/pw"),
        ({"token_file": Path("/dev/null")}, "push.token_file is /dev/null, which must hold one line"),
        ({"url": "https://store/write", "ca": Path("/nowhere/ca.pem")}, "push.ca is /nowhere/ca.pem"),
        ({"url": "https://store/write", "ca": Path("/dev/null")}, "push.ca is /dev/null"),
    ],
)
def test_settings_that_cannot_be_used_are_told_at_once(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        Pusher(make_node(), Push(**{"url": "http://store/write", **settings}))
    assert str(caught.value).startswith(words)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("module", ["cramjam", "google.protobuf.descriptor_pb2", "urllib3", "tenacity"])
def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"{module} is not installed; pip install 'epochcast\[agent-push\]'"):
        Pusher(make_node(), Push(url="http://store/write"))


def test_columns_of_a_replayed_trace_get_the_names_of_the_metrics_page(receiver: Receiver) -> None:
    columns = (*(Metric(name, "", "fast", "") for name in ("sm active", "sm/active", "power_watts")), catalog()["power"])
    store = DeviceStore(Device(0, "GPU-a", "trace", "replay", columns), 10, 5.0)
    add(store, 0, 1)
    push_all(make_node(store), quick(url=receiver.url))
    names = {dict(series)["__name__"] for series in receiver.accepted}
    registry = CollectorRegistry()
    node = SimpleNamespace(**vars(make_node(store)), stores=[store], choices=(), clock=SystemClock())
    registry.register(DeviceCollector(node, 5.0))
    page = generate_latest(registry).decode()
    assert len(names) == 4
    assert "epochcast_gpu_power_watts" in names
    assert all(f"\n{name}{{" in page for name in names)


def test_no_backlog_holds_more_than_its_capacity_and_none_miscounts() -> None:
    rng = np.random.default_rng(0)
    backlog = Backlog(100)
    put = settled = 0
    flying: Batch | None = None
    order: list[int] = []
    for number in range(2000):
        action = rng.integers(3)
        if action == 0:
            batch = Batch(str(number).encode(), int(rng.integers(1, 51)))
            backlog.put(batch)
            put += batch.samples
        elif flying is None and action == 1 and backlog.samples:
            flying = backlog.take()
        elif flying is not None:
            if rng.random() < 0.5:
                backlog.give_back(flying)
            else:
                backlog.settle(flying)
                settled += flying.samples
                order.append(int(flying.body))
            flying = None
        assert backlog.samples <= 100
        assert put == settled + backlog.dropped + backlog.samples
    assert backlog.dropped
    assert order == sorted(order)
    assert order


def test_failed_requests_are_counted_by_kind(receive: Callable[..., Receiver]) -> None:
    receiver = receive()
    receiver.answers = [(500, {}, ""), (429, {}, ""), (404, {}, "not found")]
    store = make_store("power")
    add(store, 0, 5)
    pusher = Pusher(make_node(store), quick(url=receiver.url))
    pusher.start()
    until(lambda: figures(pusher)["rejected_samples_total"])
    pusher.stop()
    assert pusher.sender.requests == Counter({"500": 1, "429": 1, "404": 1, "204": 1})


def test_nothing_listens(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    store = make_store("power")
    add(store, 0, 5)
    pusher = push_all(make_node(store), Push(url="http://127.0.0.1:1/write"))
    assert figures(pusher)["requests_total error"] == 1
    assert figures(pusher)["queue_samples"] == 6
    assert "last_success_timestamp_seconds" not in figures(pusher)
