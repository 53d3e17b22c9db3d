"""What arrives at a store: every sample, with its own time and its names."""

import math
from typing import Any

import numpy as np


def test_every_sample_arrives_with_its_own_time_and_the_names_of_the_metrics_page(
    receiver: Any, node: Any, figures: Any
) -> None:
    store = node.add_store("sm_active", "power", "energy", instance=3)
    store.add_ticks(0, 20)
    store.add(store.START + 2, np.array([math.nan, 1 / 3, 12_345_678_901.25]), 0.0)
    pusher = receiver.push_all(node, labels={"cluster": "c1", "instance": "", "rack": "r9"})
    stamps = [int(store.START * 1000) + 100 * tick for tick in range(21)]
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


def test_ratios_are_rounded_to_1_in_1024_on_request(receiver: Any, node: Any) -> None:
    store = node.add_store("sm_active", "power")
    for tick, value in enumerate(np.linspace(0, 1, 50)):
        store.add(store.START + tick / 10, np.array([value, value]), 0.0)
    receiver.push_all(node, quantise=True)
    ratios = np.array([value for _, value in receiver.values("epochcast_gpu_sm_active_ratio")])
    assert (ratios * 1024 == np.rint(ratios * 1024)).all()
    assert np.abs(ratios - np.linspace(0, 1, 50)).max() <= 1 / 2048
    power = receiver.values(
        "epochcast_gpu_power_watts", instance="node7", job="epochcast-agent"
    )  # where a scrape has its target
    assert [value for _, value in power] == np.linspace(0, 1, 50, dtype="f4").tolist()


def test_a_long_history_goes_in_many_requests_over_one_connection(receiver: Any, node: Any, figures: Any) -> None:
    stores = [node.add_store("sm_active", "power", "energy", uuid=f"GPU-{index}", index=index) for index in range(4)]
    for store in stores:
        store.add_ticks(0, 2500)
    pusher = receiver.push_all(node)
    assert receiver.samples == 4 * 3 * (2500 + 1) == figures(pusher)["samples_total"]
    assert len(receiver.headers) == 4
    assert len(receiver.connections) == 1
    assert figures(pusher)["requests_total 204"] == 4
