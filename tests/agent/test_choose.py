from typing import Any

import pytest

from epochcast.agent import choose as choosing
from epochcast.agent.catalog import catalog
from epochcast.agent.choose import better_source_works, choose
from epochcast.agent.config import Config
from epochcast.common.errors import InputError

PROFILES, PLAIN = (catalog()["sm_active"], catalog()["power"]), (catalog()["power"],)


def active(config: Config = Config()) -> dict[str, str]:  # noqa: B008
    sources, choices = choose(config)
    assert [choice.uuid for choice in choices] == [device.uuid for source in sources for device in source.devices]
    return {choice.uuid: choice.source for choice in choices}


def test_each_gpu_gets_the_best_source_that_works_for_it(world: Any) -> None:
    opened = world(
        gpm=[("hopper", 0, PROFILES)],
        dcgm=[("hopper", 0, PROFILES), ("ampere", 1, PROFILES), ("pascal", 2, PLAIN)],
        nvml=[("hopper", 0, PLAIN), ("ampere", 1, PLAIN), ("pascal", 2, PLAIN)],
    )
    sources, choices = choose(Config())
    assert {choice.uuid: choice.source for choice in choices} == {"hopper": "gpm", "ampere": "dcgm", "pascal": "nvml"}
    assert {choice.uuid: choice.fallback for choice in choices} == {"hopper": False, "ampere": False, "pascal": True}
    assert choices[0].refused == {}
    assert choices[2].refused == {
        "gpm": "gpm sees none of these GPUs",
        "dcgm": "no module",
        "dcgm-exporter": "no dcgm-exporter here",
    }
    assert [source.closed for source in sources] == [False] * 3
    assert sum(not source.closed for source in opened) == 3


def test_where_every_gpu_has_gpm_no_other_source_is_opened(world: Any) -> None:
    opened = world(gpm=[("a", 0, PROFILES)], nvml=[("a", 0, PLAIN)], dcgm=[("a", 0, PROFILES)])
    assert active() == {"a": "gpm"}
    assert {source.name for source in opened} == {"gpm", "nvml"}


def test_a_gpu_whose_instances_have_profiling_keeps_its_source(world: Any) -> None:
    world(nvml=[("a", 0, PLAIN)], dcgm=[("a", 0, PLAIN), ("a-mig", 0, PROFILES)])
    # The instance is no GPU of NVML's list; it comes with its parent.
    assert set(active()) >= {"a"}


def test_the_exporter_is_read_where_dcgm_itself_cannot_be(world: Any) -> None:
    world(nvml=[("a", 0, PLAIN)], dcgm_exporter=[("a", 0, PROFILES)])
    assert active() == {"a": "dcgm-exporter"}


def test_a_gpu_is_noticed_where_only_the_host_was_read(world: Any) -> None:
    world(host=[("host", 0, PLAIN)])
    _, choices = choose(Config())
    assert not better_source_works(Config(), choices)
    world(host=[("host", 0, PLAIN)], nvml=[("a", 0, PLAIN)])
    assert better_source_works(Config(), choices)


def test_without_nvml_no_gpu_is_read_twice(world: Any) -> None:
    for metrics in (PROFILES, PLAIN):
        world(dcgm=[("a", 0, metrics)], dcgm_exporter=[("a", 0, metrics)])
        assert active() == {"a": "dcgm"}


def test_a_source_that_goes_while_it_is_chosen_costs_only_itself(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world(dcgm=[("a", 0, PROFILES), ("b", 1, PLAIN)], nvml=[("a", 0, PLAIN), ("b", 1, PLAIN)])
    open_source = choosing.open_source

    def going(name: str, config: Config, only: frozenset[str] | None = None) -> Any:
        if name == "dcgm" and only == {"a"}:
            raise InputError("the host engine has just gone")
        return open_source(name, config, only)

    monkeypatch.setattr(choosing, "open_source", going)
    choices = choose(Config())[1]
    assert {choice.uuid: choice.source for choice in choices} == {"a": "nvml", "b": "nvml"}
    assert choices[0].refused["dcgm"] == "the host engine has just gone"


def test_a_better_source_is_noticed_whichever_gpu_it_is_for(world: Any) -> None:
    both = [("ampere", 0, PLAIN), ("pascal", 1, PLAIN)]
    world(nvml=both)
    _, choices = choose(Config())
    assert not better_source_works(Config(), choices)
    opened = world(nvml=both, dcgm=[("ampere", 0, PROFILES), ("pascal", 1, PLAIN)])
    assert better_source_works(Config(), choices)
    assert all(source.closed for source in opened)
