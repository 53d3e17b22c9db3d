"""Remote write to a real Prometheus and a real VictoriaMetrics, read back sample by sample."""

import json
import math
import time
from typing import Any

import numpy as np

from epochcast.agent.catalog import catalog
from epochcast.agent.config import Push
from epochcast.agent.push import Pusher

METRICS = tuple(metric.name for metric in catalog().values() if metric.scope == "gpu")
Series = dict[tuple[str, str], list[tuple[int, float]]]


class Gpus:
    """GPUs of a node with rows up to now, so that a database sees them as fresh."""

    def __init__(self, node: Any, count: int) -> None:
        self.node = node
        node.silent_after = 3.0
        self.stores = [node.add_store(*METRICS, uuid=f"GPU-{index}", index=index) for index in range(count)]
        self._start, self._ticks = math.floor(time.time() * 10) / 10, 0

    @property
    def expected(self) -> Series:
        """Every sample, by (UUID, name of the series)."""
        found: Series = {}
        for store in self.stores:
            times, columns = store.samples(-math.inf, math.inf, METRICS)
            stamps = np.rint(times * 1000).astype(int).tolist()
            for name in METRICS:
                series = catalog()[name].prometheus + "_total" * (catalog()[name].kind == "counter")
                found[store.device.uuid, series] = list(zip(stamps, columns[name].tolist(), strict=True))
        return found

    @property
    def produced(self) -> int:
        return sum(map(len, self.expected.values()))

    def add(self, rows: int) -> None:
        for store in self.node.stores:
            store.add_ticks(self._ticks, rows, self._start)
        self._ticks += rows

    def add_live(self, seconds: float) -> None:
        """Add rows as time goes by."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.1)
            self.add(max(0, math.floor((time.time() - self._start) * 10) - self._ticks))


def read_prometheus(prometheus: Any) -> Series:
    """Return every raw sample of the last five minutes; a range vector leaves markers of an end out."""
    return {
        (found["metric"]["uuid"], found["metric"]["__name__"]): [
            (round(float(stamp) * 1000), float(value)) for stamp, value in found["values"]
        ]
        for found in prometheus.query('{job="epochcast-agent",gpu!=""}[5m]')
    }


def pushing(gpus: Gpus, database: Any, interval: float = 0.5) -> Pusher:
    """Push what they have to a database from now on, every so many seconds."""
    pusher = Pusher(gpus.node, Push(url=f"{database.url}/api/v1/write", interval=interval))
    pusher.start()
    return pusher


def test_prometheus_sees_a_gpu_disappear(node: Any, database: Any, until: Any) -> None:
    prometheus = database("prometheus")
    gpus = Gpus(node, 2)
    pusher = pushing(gpus, prometheus)
    gpus.add_live(1.5)
    until(lambda: len(prometheus.query("epochcast_gpu_power_watts")) == 2)
    silent = gpus.node.stores.pop()
    deadline = time.monotonic() + 120
    while len(prometheus.query("epochcast_gpu_power_watts")) == 2:
        assert time.monotonic() < deadline, "the last value of a silent GPU looks alive"
        gpus.add_live(0.5)
    (alive,) = prometheus.query("epochcast_gpu_power_watts")
    assert alive["metric"]["uuid"] != silent.device.uuid
    (seen,) = prometheus.query(f'count_over_time(epochcast_gpu_power_watts{{uuid="{silent.device.uuid}"}}[5m])')
    assert int(seen["value"][1]) == len(gpus.expected[silent.device.uuid, "epochcast_gpu_power_watts"])
    pusher.stop()
    assert prometheus.query("epochcast_gpu_power_watts") == []
    # An agent that starts again goes on with the same series.
    time.sleep(0.2)
    node.stores.clear()
    restarted = Gpus(node, 1)
    restarted.add(1)
    again = pushing(restarted, prometheus, interval=5.0)
    again.stop()
    assert again.sender.requests.keys() == {"204"}


def test_an_outage_within_the_queue_loses_nothing(node: Any, database: Any, until: Any) -> None:
    prometheus = database("prometheus")
    gpus = Gpus(node, 2)
    pusher = pushing(gpus, prometheus)
    gpus.add_live(1)
    prometheus.stop()
    gpus.add_live(1.5)
    waiting = pusher.backlog.samples
    prometheus.start()
    gpus.add_live(0.5)
    until(lambda: not pusher.backlog.samples)
    pusher.stop()
    assert waiting > 300
    assert pusher.sender.requests["error"] >= 1
    assert (pusher.backlog.dropped, pusher.sender.rejected, pusher.late_samples, pusher.lost_rows) == (0, 0, 0, 0)
    assert read_prometheus(prometheus) == gpus.expected


def test_prometheus_refuses_what_is_older_than_it_has_and_that_is_counted(node: Any, database: Any) -> None:
    prometheus = database("prometheus")
    gpus = Gpus(node, 1)
    gpus.add(30)
    for _ in range(2):  # the second agent knows nothing of the first, nor would one that was reinstalled
        pusher = pushing(gpus, prometheus, interval=5.0)
        pusher.stop()
    assert pusher.sender.requests == {"400": 1}
    assert pusher.sender.rejected == gpus.produced + len(gpus.expected)
    assert pusher.sender.sent == 0


def test_victoria_metrics_has_every_sample_exactly(node: Any, database: Any, until: Any) -> None:
    victoria = database("victoria-metrics")
    gpus = Gpus(node, 2)
    pusher = pushing(gpus, victoria)
    gpus.add_live(1)
    pusher.stop()
    assert pusher.sender.sent == gpus.produced + len(gpus.expected)

    def exported() -> Series:
        series: Series = {}
        for line in victoria.get("/api/v1/export", **{"match[]": '{job="epochcast-agent",gpu!=""}'}).splitlines():
            found = json.loads(line)
            samples = zip(found["timestamps"], found["values"], strict=True)
            kept = [(stamp, value) for stamp, value in samples if value is not None]  # null: the marker of its end
            series.setdefault((found["metric"]["uuid"], found["metric"]["__name__"]), []).extend(kept)
        return {name: sorted(samples) for name, samples in series.items()}

    # It makes samples visible when it gets round to it.
    until(lambda: sum(map(len, exported().values())) >= gpus.produced)
    stored = exported()
    assert stored.keys() == gpus.expected.keys()
    for name, samples in gpus.expected.items():
        # It keeps decimal numbers of twelve digits.
        assert [stamp for stamp, _ in stored[name]] == [stamp for stamp, _ in samples]
        np.testing.assert_allclose([value for _, value in stored[name]], [value for _, value in samples], rtol=1e-12)
    # Its queries look back from a whole second, so the one in which the series ended must have passed.
    until(lambda: victoria.query("epochcast_gpu_power_watts") == [])
    assert len(victoria.query("count_over_time(epochcast_gpu_power_watts[1m])")) == 2
