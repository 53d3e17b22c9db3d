"""Shares of the sources: every node is in one of them, whichever source names it."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.telemetry import nodes, settings
from epochcast.analyzer.telemetry.shard import WHOLE, Shard

NAMES = [f"gpu-node-{number}" for number in range(1000)]


@pytest.mark.parametrize("count", [1, 2, 4, 7])
def test_a_node_is_in_one_shard(count: int) -> None:
    shares = [[name for name in NAMES if Shard(number, count).has(name)] for number in range(1, count + 1)]
    assert sorted(name for share in shares for name in share) == sorted(NAMES)
    assert max(map(len, shares)) < 1.2 * len(NAMES) / count


@pytest.mark.parametrize("text", ["5/4", "0/4", "a/b", "1", "1/0", "-1/4", "1/4/4", "1.0/4", "", "１/4"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"the shard is .*; give its number and the number of shards, 1/4 to 4/4 for four"):
        Shard.parse(text)


def test_sources_of_one_node_are_opened_by_one_shard() -> None:
    assert Shard.parse("2/4") == Shard(2, 4)
    sections = [
        *(settings.AgentSettings(url=f"http://10.0.0.{number}:9911", node=name) for number, name in enumerate(NAMES[:20])),
        *(settings.NodeSettings(url=f"http://{name}:9912") for name in NAMES[20:40]),
    ]
    whole = {source.name for source in settings.opened(sections)}
    shares = [{source.name for source in settings.opened(sections, Shard(number, 3))} for number in (1, 2, 3)]
    assert len(whole) == 40 == sum(map(len, shares)) and set.union(*shares) == whole
    assert all(shares)
    assert shares[0] >= {f"http://{name}:9912" for name in NAMES[20:40] if Shard(1, 3).has(name)}


def test_addresses_of_a_name_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [f"10.0.0.{number}" for number in range(1, 21)]
    monkeypatch.setattr(nodes.socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", (one, 9912)) for one in addresses])
    polled: list[str] = []
    monkeypatch.setattr(nodes.NodeSource, "poll", lambda source: polled.append(source.name) or [])
    section = settings.NodeSettings(url="http://nodes:9912", every_address=True)
    for shard in (Shard(1, 2), Shard(2, 2)):
        (source,) = settings.opened([section], shard)
        assert source.poll() == []
    assert sorted(polled) == sorted(f"http://{one}:9912" for one in addresses)


def test_gpus_of_a_database_are_shared_by_node(past: Callable[[Iterable[Any]], str]) -> None:
    now = time.time()
    labels = [{"uuid": f"GPU-{number}", "gpu": "0", "instance": f"{name}:9911"} for number, name in enumerate(NAMES[:8])]
    lines = [("epochcast_gpu_dram_active_ratio", one, 0.5, now - 20 + tick) for one in labels for tick in range(10)]
    section = settings.PrometheusSettings(url=past(lines), lag=0.0)
    found: list[set[str]] = []
    for shard in (WHOLE, Shard(1, 2), Shard(2, 2)):
        (source,) = settings.opened([section], shard)
        found.append({rows.device.node for rows in source.poll()})  # type: ignore[union-attr]
        source.close()
    assert found[0] == set(NAMES[:8])
    assert found[1] == {name for name in NAMES[:8] if Shard(1, 2).has(name)} and found[2] == found[0] - found[1]
