"""The queue of what could not be sent yet, and the rows that it never saw."""

import time
from typing import Any

from epochcast.agent.push import Pusher


def test_without_a_store_the_queue_keeps_the_newest_and_counts_the_rest(
    receiver: Any, node: Any, figures: Any, until: Any
) -> None:
    receiver.answers = [(500, {}, "")] * 10_000
    store = node.add_store("power", "energy")
    pusher = receiver.pusher(node, queue=1000)
    produced = 0
    while figures(pusher)["dropped_samples_total"] < 500:
        store.add_ticks(produced // 2, 150)
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


def test_stop_waits_for_no_hanging_store(receiver: Any, node: Any, until: Any) -> None:
    receiver.hold.clear()
    store = node.add_store("power", ticks=5)
    pusher = receiver.pusher(node)
    until(lambda: receiver.headers)
    store.add_ticks(5, 5)
    pusher.stop()
    assert not receiver.hold.is_set()
    assert pusher.backlog.samples == 11, "its two rows of five, and the end of the series"


def test_new_settings_repeat_nothing_and_lose_nothing_that_waited(receiver: Any, node: Any, figures: Any, until: Any) -> None:
    receiver.answers = [(204, {}, "")] + [(503, {}, "")] * 100
    store = node.add_store("power", ticks=5)
    old = receiver.pusher(node)
    until(lambda: receiver.samples == 5)
    store.add_ticks(5, 5)
    until(lambda: old.sender.retries)
    old.stop()
    assert old.backlog.samples == 6
    receiver.answers.clear()
    store.add_ticks(10, 5)
    new = Pusher(node, receiver.settings(labels={"rack": "r9"}))
    new.take_over(old)
    new.start()
    new.stop()
    assert [value for _, value in receiver.values("epochcast_gpu_power_watts", rack="r9")] == list(range(10, 15))
    before = [value for labels, kept in receiver.accepted.items() if "rack" not in dict(labels) for _, value in kept]
    assert before[:10] == list(range(10))
    seen = figures(new)
    assert (seen["samples_total"], seen["queue_samples"], seen["out_of_order_samples_total"]) == (15 + 2, 0, 0)
    assert seen["requests_total 503"] >= 2


def test_rows_overwritten_before_they_were_read_are_counted(receiver: Any, node: Any, until: Any) -> None:
    store = node.add_store("power", capacity=10)
    pusher = receiver.pusher(node)
    store.add_ticks(0, 10)
    until(lambda: receiver.samples == 10)
    for tick in range(10, 35):
        store.add_ticks(tick, 1)
    until(lambda: len(receiver.values("epochcast_gpu_power_watts")) + pusher.lost_rows == 35)
    pusher.stop()
