"""A real Prometheus, whose past promtool has written; servers of our own for the ways in which databases fail."""

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from epochcast.analyzer.telemetry import Rows, TelemetryError, endpoint, prometheus
from epochcast.analyzer.telemetry.gpu_report import Owner
from epochcast.analyzer.telemetry.prometheus import PrometheusSource
from epochcast.analyzer.telemetry.prometheus_api import PrometheusApi, TooManySamplesError
from epochcast.analyzer.telemetry.settings import PrometheusSettings
from epochcast.analyzer.traces.columns import SCRAPED
from epochcast.analyzer.traces.series import Series, table

from .conftest import Line

GPU = {"gpu": "0", "uuid": "GPU-a", "name": "Tesla T4"}
PUSHED = {**GPU, "instance": "node-1", "job": "epochcast-agent"}
PAGE = {**GPU, "instance": "node-1.example:9911", "job": "agents"}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "FIRST_PAUSE_S", 0.001)


def source(url: str, **settings: Any) -> PrometheusSource:
    return PrometheusSource(PrometheusSettings(url=url, **{"lag": 0.0, "history": 3600.0, **settings}))


def all_rows(reader: PrometheusSource) -> list[Rows]:
    """What polls give until nothing is new."""
    found: list[Rows] = []
    while rows := reader.poll():
        found += rows
    return found


def joined(rows: list[Rows], column: str) -> tuple[np.ndarray, np.ndarray]:
    nothing = [np.full(one.time.size, np.nan) for one in rows]
    values = [one.values.get(column, empty) for one, empty in zip(rows, nothing, strict=True)]
    return np.concatenate([one.time for one in rows]), np.concatenate(values)


def test_every_written_sample_once_in_pieces(past: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = round(time.time()) - 300
    times = begin + np.arange(2000) / 10
    rng = np.random.default_rng(0)
    power, clock = rng.uniform(20, 70, 2000).round(3), rng.integers(300, 1500, 200) * 1e6
    lines: list[Line] = [("epochcast_gpu_power_watts", PUSHED, float(p), float(t)) for p, t in zip(power, times, strict=True)]
    lines += [("epochcast_gpu_sm_clock_hertz", PUSHED, float(c), float(t)) for c, t in zip(clock, times[::10], strict=True)]
    other = {**PUSHED, "gpu": "1", "uuid": "GPU-b", "instance": "node-2", "cluster": "elsewhere"}
    lines += [("epochcast_gpu_power_watts", other, 1.0, float(t)) for t in times]
    url = past(lines)
    monkeypatch.setattr(prometheus, "MOST_SAMPLES", 500)
    monkeypatch.setattr(prometheus, "FIRST_SPAN_S", 60.0)
    reader = source(url, history=400.0, matcher={"cluster": ""}, instance="g4dn.xlarge")
    rows = all_rows(reader)
    assert len(rows) > 3
    found, values = joined(rows, "power")
    np.testing.assert_allclose(found, times, atol=1e-6)
    np.testing.assert_allclose(values, power)
    found, values = joined(rows, "sm_clock")
    np.testing.assert_allclose(values[::10], clock)
    assert np.isnan(values).sum() == 1800
    device = rows[0].device
    assert {one.device.uuid for one in rows} == {"GPU-a"}
    assert (device.label, device.name, device.node, device.source, device.instance) == (
        *("0", "Tesla T4", "node-1", "prometheus"),
        "g4dn.xlarge",
    )
    assert {one.hertz for one in rows} == {10.0}
    # Another service, later: the same past again, from where its history begins.
    short = all_rows(source(url, history=float(time.time() - begin - 100), matcher={"cluster": ""}))
    assert joined(short, "power")[0][0] == pytest.approx(begin + 100, abs=2)


def page(begin: float) -> list[Line]:
    """Scrapes every 5 s: a ratio whose integral tells another mean than its newest value and its last window do."""
    lines: list[Line] = []
    busy = 1000.0
    for k in range(60):
        at = begin + 5.0 * k
        busy = 0.0 if k == 30 else busy + 5 * (0.2 + 0.01 * k)  # begun again after half of it
        if 40 <= k < 50:
            continue  # the agent was away
        lines.append(("epochcast_gpu_up", PAGE, 1.0, at))
        lines.append(("epochcast_gpu_dram_active_ratio", PAGE, 0.9, at))
        lines.append(("epochcast_gpu_dram_active_ratio_avg", PAGE, 0.5, at))
        lines.append(("epochcast_gpu_dram_active_seconds_total", PAGE, busy, at))
        lines.append(("epochcast_gpu_power_watts", PAGE, 70.0, at))
        lines.append(("epochcast_gpu_power_watts_avg", PAGE, 40.0 + k, at))
        lines.append(("epochcast_gpu_power_watts_max", PAGE, 99.0, at))
        lines.append(("epochcast_gpu_energy_joules_total", PAGE, 100.0 * k, at))
        lines.append(("epochcast_gpu_info", {**PAGE, "source": "gpm", "simulated": "true"}, 1.0, at))
    owner = {"pid": "7", "process": "python", "user": "ann", "container": "", "slurm_job": "12", "pod": ""}
    lines.append(("epochcast_gpu_process_memory_bytes", {**PAGE, **owner}, 1e9, begin + 295.0))
    return lines


def test_of_what_was_scraped_the_exact_means_are_taken(past: Any) -> None:
    begin = round(time.time()) - 300.0
    rows = all_rows(source(past(page(begin))))
    times, ratio = joined(rows, "dram_active")
    seen = [k for k in range(60) if not 40 <= k < 50]
    np.testing.assert_allclose(times, [begin + 5.0 * k for k in seen], atol=1e-6)
    # The first has none before it; after a restart and after a pause the integral tells nothing: the window's mean does.
    expected = [0.5 if k in (0, 30, 50) else 0.2 + 0.01 * k for k in seen]
    np.testing.assert_allclose(ratio, expected, rtol=1e-6)
    np.testing.assert_allclose(joined(rows, "power")[1], [40.0 + k for k in seen])
    np.testing.assert_allclose(joined(rows, "energy")[1], [100.0 * k for k in seen])
    device = rows[0].device
    assert (device.node, device.source, device.simulated) == ("node-1.example", "gpm", True)
    assert rows[0].hertz == 0.2
    assert rows[0].owners == (Owner(7, "python", "ann", "", "12", ""),)


def test_new_scrapes_go_on_with_the_integral_of_the_one_before(past: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = round(time.time()) - 300.0
    url = past(page(begin))
    reader = source(url)
    monkeypatch.setattr(prometheus.time, "time", lambda: begin + 52.0)
    assert joined(all_rows(reader), "dram_active")[0][-1] == begin + 50
    for until, expected in ((57.0, 0.2 + 0.01 * 11), (62.0, 0.2 + 0.01 * 12)):
        monkeypatch.setattr(prometheus.time, "time", lambda until=until: begin + until)
        (rows,) = reader.poll()
        np.testing.assert_allclose(rows.values["dram_active"], [expected], rtol=1e-6)
        assert reader.poll() == []


def test_written_samples_come_before_scrapes_and_scrapes_after_long_silence(past: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = round(time.time()) - 300.0
    written: list[Line] = [("epochcast_gpu_power_watts", PUSHED, 1.0, begin + k / 10) for k in range(1000)]
    reader = source(past([*written, *page(begin)]))
    rows = all_rows(reader)
    assert {one.hertz for one in rows} == {10.0}
    assert set(joined(rows, "power")[1].tolist()) == {1.0}
    assert rows[0].device.source == "gpm"  # which the page tells
    monkeypatch.setattr(prometheus, "SILENT_S", 0.0)
    monkeypatch.setattr(prometheus, "REST_S", 0.0)
    later = all_rows(reader)
    assert {one.hertz for one in later} == {0.2}
    assert later[0].time[0] == begin + 100


def test_integrals_of_a_replay_run_as_fast_as_it_is_played() -> None:
    times = np.arange(4.0)
    series = [
        Series({"__name__": "epochcast_gpu_dram_active_seconds_total"}, times, 20 * 0.5 * times),
        Series({"__name__": "epochcast_gpu_dram_active_ratio_avg"}, times, np.full(4, 0.5)),
    ]
    assert table(series, SCRAPED, exact=False)[1]["dram_active"].tolist() == [0.5] * 4
    assert table([], SCRAPED, exact=True)[0].size == 0


class Store:
    """Prometheus' API with one GPU that was written at 10 Hz from ``begin`` on; ``spoil`` turns an answer into another."""

    def __init__(self, begin: float, seconds: float) -> None:
        self.times = begin + np.arange(round(seconds * 10)) / 10
        self.spoil: Callable[[Any, dict[str, Any]], Any] = lambda request, answer: answer
        self.ranges: list[tuple[float, float]] = []
        self.headers: dict[str, str] = {}

    def __call__(self, request: Any) -> Any:
        self.headers = request.headers
        if request.path.endswith("/series"):
            answer: Any = {"status": "success", "data": [{"__name__": "epochcast_gpu_power_watts", **PUSHED}]}
        elif "[" not in request.query["query"][0]:
            answer = {"status": "success", "data": {"resultType": "vector", "result": []}}
        else:
            end = float(request.query["time"][0])
            start = end - float(request.query["query"][0].rpartition("[")[2].removesuffix("ms]")) / 1000
            self.ranges.append((start, end))
            inside = self.times[(self.times >= start) & (self.times <= end)]
            values = [[round(moment, 3), "1.5"] for moment in inside.tolist()]
            series = [{"metric": {"__name__": "epochcast_gpu_power_watts", **PUSHED}, "values": values}] if values else []
            answer = {"status": "success", "data": {"resultType": "matrix", "result": series}}
        answer = self.spoil(request, answer)
        return answer if isinstance(answer, tuple | str) else json.dumps(answer)


def test_a_store_that_refuses_many_samples_is_asked_for_fewer(serve: Any) -> None:
    store = Store(time.time() - 400, 400)

    def spoil(request: Any, answer: Any) -> Any:
        if (
            "[" in request.query.get("query", [""])[0]
            and len(answer["data"]["result"])
            and (len(answer["data"]["result"][0]["values"]) > 1000)
        ):
            sentence = "query processing would load too many samples into memory in query execution"
            return (422, json.dumps({"status": "error", "errorType": "execution", "error": sentence}))
        return answer

    store.spoil = spoil
    url = serve(store)
    times, _ = joined(all_rows(source(url, tenant="training")), "power")
    np.testing.assert_allclose(times, store.times[: len(times)], atol=1e-3)
    assert len(times) >= 3990
    assert store.headers["X-Scope-OrgID"] == "training"


def test_an_answer_that_is_too_long_is_asked_for_in_pieces(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epochcast.analyzer.telemetry.prometheus_api.MOST_BYTES", 30_000)
    store = Store(time.time() - 400, 400)
    times, _ = joined(all_rows(source(serve(store))), "power")
    np.testing.assert_allclose(times, store.times[: len(times)], atol=1e-3)
    assert len(times) >= 3990


def test_long_silence_is_passed_in_few_questions(serve: Any) -> None:
    store = Store(time.time() - 20, 20)
    rows = source(serve(store), history=30 * 86_400.0).poll()
    assert len(rows[0].time) > 150
    assert len(store.ranges) < 30 * 24 + 10


def test_samples_that_come_late_are_found(serve: Any) -> None:
    store = Store(time.time() - 100, 50)
    reader = source(serve(store))
    assert all_rows(reader)[-1].time[-1] == pytest.approx(store.times[-1])
    assert reader.poll() == []
    store.times = np.concatenate([store.times, store.times[-1] + np.arange(1, 100) / 10])  # the agent pushed its backlog
    assert len(reader.poll()[0].time) == 99


def test_a_gpu_that_is_back_is_not_read_from_the_beginning(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "GPUS_S", 0.0)
    store = Store(time.time() - 100, 50)
    reader = source(serve(store))
    assert len(all_rows(reader)) == 1
    store.spoil = lambda request, answer: {"status": "success", "data": []} if request.path.endswith("/series") else answer
    assert reader.poll() == []
    store.spoil = lambda _, answer: answer
    assert reader.poll() == []


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        ((503, "busy"), "status 503: busy"),
        ((429, "slow down"), "status 429"),
        ((401, "who are you"), "status 401"),
        ((400, json.dumps({"status": "error", "error": "parse error"})), "status 400.*parse error|parse error"),
        ({"status": "error", "error": "no such block"}, "answers: no such block"),
        ({"status": "success", "isPartial": True, "data": []}, "returned only a part of its data"),
        ({"status": "success", "warnings": ["a store is away"], "data": []}, "a store is away"),
        ({"status": "success", "data": {"resultType": "scalar", "result": []}}, "does not answer with a matrix"),
        ({"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}}]}}, "invalid samples"),
        (
            {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1, "x"]]}]}},
            "invalid samples",
        ),
        ({"status": "success"}, "does not answer with a matrix"),
        ("<html>", "does not answer in JSON"),
        ("[]", "not an object"),
    ],
)
def test_answers_that_are_failures(serve: Any, reply: Any, sentence: str) -> None:
    store = Store(time.time() - 100, 100)
    store.spoil = lambda request, answer: reply if "[" in request.query.get("query", [""])[0] else answer
    reader = source(serve(store))
    with pytest.raises(TelemetryError, match=sentence) as caught:
        reader.poll()
    assert "\n" not in str(caught.value)
    store.spoil = lambda _, answer: answer
    assert len(all_rows(reader)) >= 1  # the same is requested again


def test_what_a_query_s_own_notes_say_is_no_failure(serve: Any) -> None:
    store = Store(time.time() - 100, 100)
    store.spoil = lambda _, answer: {**answer, "warnings": ["PromQL info: metric might not be a counter"], "infos": ["x"]}
    assert len(source(serve(store)).poll()) == 1


@pytest.mark.parametrize("broken", ["GPU-b", "GPU-0"])
def test_of_two_gpus_one_that_fails_is_told_and_the_other_is_read(serve: Any, broken: str) -> None:
    """Whether it comes after the other or before it: then the other is not forgotten."""
    store, first = Store(time.time() - 100, 100), broken == "GPU-0"

    def spoil(request: Any, answer: Any) -> Any:
        if request.path.endswith("/series"):
            series = {"__name__": "epochcast_gpu_power_watts", **PUSHED, "uuid": broken}
            answer["data"].insert(0 if first else 1, series)
        return (500, "down") if broken in request.query.get("query", [""])[0] else answer

    store.spoil = spoil
    reader = source(serve(store))
    for fails in (first, not first):
        if fails:
            with pytest.raises(TelemetryError, match="status 500"):
                reader.poll()
        else:
            assert [rows.device.uuid for rows in reader.poll()] == ["GPU-a"]


def test_labels_with_quotes_are_asked_for_as_they_are(serve: Any) -> None:
    asked = []
    url = serve(lambda request: asked.append(request.query) or json.dumps({"status": "success", "data": []}))
    PrometheusApi(PrometheusSettings(url=url, matcher={"team": 'a"b\\c\né'})).labels(["up"], 0, 1)
    assert asked[0]["match[]"] == ['{__name__=~"up",team="a\\"b\\\\c\\né"}']
    assert issubclass(TooManySamplesError, TelemetryError)


def test_written_samples_of_a_replay_are_called_simulated(past: Any) -> None:
    begin = round(time.time()) - 60.0
    lines: list[Line] = []
    for uuid, more in (("GPU-real", {}), ("GPU-made-up", {"simulated": "true"})):
        lines += [("epochcast_gpu_power_watts", {**PUSHED, "uuid": uuid, **more}, 1.0, begin + k / 10) for k in range(50)]
    rows = all_rows(source(past(lines)))
    assert {one.device.uuid: one.device.simulated for one in rows} == {"GPU-real": False, "GPU-made-up": True}
    assert {uuid: sum(one.time.size for one in rows if one.device.uuid == uuid) for uuid in ("GPU-real", "GPU-made-up")} == {
        "GPU-real": 50,
        "GPU-made-up": 50,
    }
