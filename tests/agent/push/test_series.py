"""Series end once, go on after a fallback, and stay in order when a clock is set."""

import math
import time
from dataclasses import replace
from typing import Any

from epochcast.agent.catalog import Metric


def test_a_silent_device_ends_its_series_once_and_may_come_back(receiver: Any, node: Any, until: Any) -> None:
    quiet, loud = node.add_store("power"), node.add_store("power", uuid="GPU-b", index=1)
    node.silent_after = 2.0  # of a busy machine the other one's next row may come late
    quiet.add_ticks(0, 5)
    pusher = receiver.pusher(node)
    ticks = 0
    while receiver.markers < 1 or ticks < 12:
        loud.add_ticks(ticks, 1)
        ticks += 1
        time.sleep(0.1)
    quiet.add_ticks(50, 5)
    until(lambda: len(receiver.values("epochcast_gpu_power_watts", uuid="GPU-a")) == 10)
    assert receiver.markers == 1
    pusher.stop()
    assert receiver.markers == 3
    (series,) = (kept for labels, kept in receiver.accepted.items() if dict(labels)["uuid"] == "GPU-a")
    ends = [position for position, (_, value) in enumerate(series) if math.isnan(value)]
    assert ends == [5, 11]
    assert series[5][0] == int(quiet.START * 1000) + 401
    assert len(receiver.values("epochcast_gpu_power_watts", uuid="GPU-b")) == ticks


def test_a_fallback_to_another_source_loses_and_repeats_nothing(receiver: Any, node: Any, figures: Any, until: Any) -> None:
    old = node.add_store("power", "sm_active")
    pusher = receiver.pusher(node)
    old.add_ticks(0, 10)
    until(lambda: receiver.samples == 20)
    old.add_ticks(10, 5)  # not read when the node is rebuilt
    new = node.make_store("power", capacity=12)
    new.add_ticks(3, 12)  # took over what fits
    node.stores = [new]
    until(lambda: receiver.markers == 1)
    new.add_ticks(15, 5)
    until(lambda: len(receiver.values("epochcast_gpu_power_watts")) == 20)
    pusher.stop()
    assert [value for _, value in receiver.values("epochcast_gpu_power_watts")] == list(range(20))
    assert len(receiver.values("epochcast_gpu_sm_active_ratio")) == 15
    assert receiver.markers == 2
    seen = figures(pusher)
    assert (seen["lost_rows_total"], seen["out_of_order_samples_total"]) == (0, 0)


def test_a_gpu_that_left_the_node_ends_and_what_it_still_held_is_sent(receiver: Any, node: Any, until: Any) -> None:
    store = node.add_store("power")
    pusher = receiver.pusher(node)
    store.add_ticks(0, 5)
    until(lambda: receiver.samples == 5)
    store.add_ticks(5, 5)
    node.stores = []
    until(lambda: receiver.markers == 1)
    node.stores = [store]
    store.add_ticks(10, 5)
    until(lambda: len(receiver.values("epochcast_gpu_power_watts")) == 15)
    pusher.stop()
    assert [value for _, value in receiver.values("epochcast_gpu_power_watts")] == list(range(15))


def test_a_clock_set_back_sends_nothing_out_of_order(receiver: Any, node: Any, figures: Any, until: Any) -> None:
    store = node.add_store("power")
    pusher = receiver.pusher(node)
    store.add_ticks(0, 100)
    until(lambda: receiver.samples == 100)
    store.add_ticks(50, 60)
    pusher.stop()
    assert [value for _, value in receiver.values("epochcast_gpu_power_watts")] == list(range(110))
    assert figures(pusher)["out_of_order_samples_total"] == 50


def test_a_clock_that_was_a_day_ahead_does_not_silence_the_node_for_a_day(receiver: Any, node: Any, until: Any) -> None:
    store = node.add_store("power", ticks=5)
    pusher = receiver.pusher(node)
    until(lambda: receiver.samples == 5)
    receiver.accepted.clear()
    store.add_ticks(0, 5, store.START - 86400)
    pusher.stop()
    assert receiver.values("epochcast_gpu_power_watts")[0] == (int((store.START - 86400) * 1000), 0.0)
    assert receiver.samples == 6


def test_a_replayed_device_is_called_simulated_in_every_series(receiver: Any, node: Any, until: Any) -> None:
    foreign = Metric("power_watts", "", "fast", "A column.")  # would take the name of another
    real, replayed = node.add_store("power"), node.make_store("power", foreign, uuid="replay-run", index=1)
    replayed.device = replace(replayed.device, simulated=True)
    node.stores.append(replayed)
    pusher = receiver.pusher(node)
    real.add_ticks(0, 3)
    replayed.add_ticks(0, 3)
    until(lambda: receiver.samples == 9)
    pusher.stop()
    names = {dict(labels)["__name__"] for labels in receiver.accepted}
    assert names == {"epochcast_gpu_power_watts", "epochcast_gpu_power_watts_2"}  # as on the metrics page
    told = {dict(labels)["uuid"]: dict(labels).get("simulated") for labels in receiver.accepted}
    assert told == {"GPU-a": None, "replay-run": "true"}
