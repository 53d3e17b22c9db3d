import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from epochcast.agent import node as noding
from epochcast.agent.catalog import catalog
from epochcast.agent.config import Config
from epochcast.agent.node import Node

from .stub_source import StubSource

PROFILES, PLAIN = (catalog()["sm_active"], catalog()["power"]), (catalog()["power"],)


@pytest.fixture(scope="module", autouse=True)
def only_garbage_of_these_tests() -> None:
    """A node that opens its sources again collects garbage; what other tests have loaded is not gone through each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def start_node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Node]]:
    """Start nodes whose clock for retries a test moves by hand (``node.ahead``)."""
    monkeypatch.setattr(noding, "complete", lambda devices: {device.uuid: dict(device.static) for device in devices})
    with ExitStack() as stack:

        def start(config: Config = Config()) -> Any:  # noqa: B008
            node: Any = Node(config)
            node.ahead = 0.0
            real = node.clock.monotonic
            monkeypatch.setattr(node.clock, "monotonic", lambda: real() + node.ahead)
            node.start()
            stack.callback(node.stop)
            return node

        yield start


def rows(node: Node, uuid: str) -> int:
    (store,) = (store for store in node.stores if store.device.uuid == uuid)
    return len(store.samples(float("-inf"), float("inf"), None)[0])


def test_each_source_has_a_sampler_of_its_own(world: Any, start_node: Any, until: Any) -> None:
    world(gpm=[("a", 0, PROFILES)], nvml=[("a", 0, PLAIN), ("b", 1, PLAIN)])
    node = start_node()
    until(lambda: all(rows(node, uuid) > 2 for uuid in "ab"))
    assert [sampler.source.name for sampler in node.samplers] == ["gpm", "nvml"]
    assert node.ticks_since(node.clock.monotonic() - 5)


def test_a_hot_added_gpu_is_read_and_nothing_of_the_others_is_lost(world: Any, start_node: Any, until: Any) -> None:
    world(nvml=[("a", 0, PLAIN)], gpm=[("a", 0, PROFILES)])
    node = start_node()
    until(lambda: rows(node, "a") > 2)
    before = node.samplers[0]
    node.supervise()
    assert node.samplers[0] is before
    had = rows(node, "a")
    world(nvml=[("a", 0, PLAIN), ("b", 1, PLAIN)], gpm=[("a", 0, PROFILES), ("b", 1, PROFILES)])
    before.source.outdated = True
    node.supervise()
    assert before.source.closed
    until(lambda: rows(node, "b") > 1)
    assert rows(node, "a") > had


def test_readings_without_a_value_are_counted_on_when_sources_are_opened_anew(world: Any, start_node: Any, until: Any) -> None:
    world(nvml=[("a", 0, PLAIN)], gpm=[("a", 0, PROFILES)])
    node = start_node()
    until(lambda: rows(node, "a") > 2)
    metric = node.stores[0].device.metrics[0].name
    for _ in range(2):
        node.samplers[0].source.blanks[0, metric] += 3
        node.reopen(node.config)
    assert node.stores[0].blanks[metric] == 6


def test_rows_that_are_measured_apart_are_kept_for_as_long(
    world: Any, start_node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StubSource, "rows_per_interval", 2)
    world(dcgm=[("a", 0, PROFILES)])
    assert start_node(Config(retention=5, source="dcgm")).stores[0]._ring.capacity == 100


def test_a_gpu_that_is_gone_stays_known_until_it_is_back(world: Any, start_node: Any, until: Any) -> None:
    world(nvml=[("a", 0, PLAIN), ("b", 1, PLAIN)], gpm=[("a", 0, PROFILES), ("b", 1, PROFILES)])
    node = start_node(Config(retention=5))
    until(lambda: rows(node, "b") > 2)
    world(nvml=[("a", 0, PLAIN)], gpm=[("a", 0, PROFILES)])
    node.samplers[0].source.outdated = True
    node.supervise()
    assert [store.device.uuid for store in node.samplers[0].stores] == ["a"]
    node.ahead = 6000.0
    node.supervise()
    had = rows(node, "b")
    assert had > 2
    world(nvml=[("a", 0, PLAIN), ("b", 1, PLAIN)], gpm=[("a", 0, PROFILES), ("b", 1, PROFILES)])
    node.samplers[0].source.outdated = True
    node.supervise()
    until(lambda: rows(node, "b") > had)


def test_a_mig_instance_that_was_taken_away_is_not_missed(world: Any, start_node: Any, until: Any) -> None:
    world(gpm=[("a", 0, PROFILES), ("a-slice", 0, PROFILES)], nvml=[("a", 0, PLAIN), ("a-slice", 0, PLAIN)])
    node = start_node()
    for device in ("a", "a-slice"):
        until(lambda device=device: rows(node, device) > 1)
    part = node.stores[1]
    part.device = replace(part.device, instance=7)
    world(gpm=[("a", 0, PROFILES)], nvml=[("a", 0, PLAIN)])
    node.samplers[0].source.outdated = True
    node.supervise()
    assert [store.device.uuid for store in node.stores] == ["a"]


def test_a_better_source_is_taken_once_it_works(
    world: Any, start_node: Any, caplog: pytest.LogCaptureFixture, until: Any
) -> None:
    world(nvml=[("a", 0, PLAIN)])
    node = start_node()
    assert node.choices[0].fallback
    world(nvml=[("a", 0, PLAIN)], dcgm=[("a", 0, PROFILES)])
    node.supervise()
    assert node.choices[0].source == "nvml"  # not tried at every look
    node.ahead = 61.0
    with caplog.at_level(logging.INFO):
        node.supervise()
    assert (node.choices[0].source, node.choices[0].fallback) == ("dcgm", False)
    assert "source dcgm" in caplog.text
    until(lambda: rows(node, "a") > 2)


def test_a_better_source_that_does_not_come_is_asked_for_ever_more_rarely(world: Any, start_node: Any) -> None:
    opened = world(nvml=[("a", 0, PLAIN)], dcgm=[("a", 0, PLAIN)])
    node = start_node()
    tried = []
    for minute in range(60):
        node.ahead = 60.0 * minute
        count = len(opened)
        node.supervise()
        if len(opened) > count:
            tried.append(minute)
    assert 5 <= len(tried) <= 9
    assert max(later - earlier for earlier, later in pairwise(tried)) >= 10


def test_a_relay_that_died_is_replaced_by_the_driver(world: Any, start_node: Any, until: Any) -> None:
    world(nvml=[("a", 0, PLAIN)], dcgm=[("a", 0, PROFILES)])
    node = start_node()
    until(lambda: rows(node, "a") > 2)
    node.samplers[0].source.absent = {"a"}
    world(nvml=[("a", 0, PLAIN)])
    node.supervise()
    assert node.choices[0].source == "dcgm"
    node.ahead = 31.0
    node.supervise()
    assert node.choices[0].source == "nvml"
    had = rows(node, "a")
    until(lambda: rows(node, "a") > had)


def test_a_relay_that_opens_but_says_nothing_is_left_and_tried_ever_more_rarely(world: Any, start_node: Any) -> None:
    world(nvml=[("a", 0, PLAIN)], dcgm=[("a", 0, PROFILES)])
    node = start_node()
    sources = []
    for step in range(240):  # an hour, in steps of 15 s
        node.ahead = 15.0 * step
        for sampler in node.samplers:
            if sampler.source.name == "dcgm":
                sampler.source.absent = {"a"}
        node.supervise()
        sources.append(node.choices[0].source)
        if step == 4:
            assert node.choices[0].refused["dcgm"] == "it opens, but has delivered nothing for long"
    assert node.choices[0].fallback == (sources[-1] == "nvml")
    tries = [step for step, (before, after) in enumerate(pairwise(sources)) if (before, after) == ("nvml", "dcgm")]
    assert 3 <= len(tries) <= 8
    assert tries[-1] - tries[-2] >= 40


def test_a_relay_that_hangs_does_not_keep_the_watchdog_from_being_fed(world: Any, start_node: Any) -> None:
    world(nvml=[("a", 0, PLAIN), ("b", 1, PLAIN)], dcgm=[("b", 1, PROFILES)])
    node = start_node()
    relay, driver = sorted(node.samplers, key=lambda sampler: sampler.source.name)
    relay.last_tick -= 100
    assert node.ticks_since(node.clock.monotonic() - 15)
    node.stop()
    driver.last_tick -= 100
    assert not node.ticks_since(node.clock.monotonic() - 15)


def test_a_source_asked_for_by_name_that_is_gone_is_tried_again(world: Any, start_node: Any, until: Any) -> None:
    world(dcgm=[("a", 0, PROFILES)])
    node = start_node(Config(source="dcgm"))
    until(lambda: rows(node, "a") > 2)
    world()
    node.samplers[0].source.outdated = True
    node.supervise()
    assert node.samplers == ()
    assert rows(node, "a") > 2
    world(dcgm=[("a", 0, PROFILES)])
    node.ahead = 61.0
    node.supervise()
    had = rows(node, "a")
    until(lambda: rows(node, "a") > had)
