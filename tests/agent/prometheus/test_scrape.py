"""A real Prometheus scrapes a real agent and answers PromQL."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_prometheus_scrapes_the_agent_and_answers(
    database: Any, start_agent: Callable[..., Any], tmp_path: Path, until: Any
) -> None:
    # A ratio of exactly 0.25 for a minute: whatever Prometheus says about it can be checked.
    lines = ["time,sm_active,power", *(f"{1000 + tick / 10},0.25,{300 + tick % 2}" for tick in range(600))]
    (tmp_path / "trace.csv").write_text("\n".join(lines))
    (tmp_path / "agent.toml").write_text("window = 1\n")
    agent = start_agent("--config", tmp_path / "agent.toml", "--replay", tmp_path / "trace.csv")
    query = database("prometheus", agent.port).query
    until(lambda: bool(query("epochcast_gpu_power_watts_avg")))
    until(lambda: bool(query("count_over_time(epochcast_gpu_sm_active_seconds_total[4s]) >= 4")))
    (up,) = query("up")
    assert up["value"][1] == "1"
    (mean,) = query("epochcast_gpu_power_watts_avg")
    assert float(mean["value"][1]) == pytest.approx(300.5)
    assert mean["metric"]["name"] == "unknown"
    # rate() of the integral is the exact mean; the slack is for the moment within a tick at which a scrape falls.
    (busy,) = query("rate(epochcast_gpu_sm_active_seconds_total[4s])")
    assert float(busy["value"][1]) == pytest.approx(0.25, rel=0.1)
    (ticks,) = query("epochcast_agent_effective_hertz")
    assert float(ticks["value"][1]) > 0
    (p99,) = query("histogram_quantile(0.99, rate(epochcast_agent_tick_lateness_seconds_bucket[1m]))")
    assert float(p99["value"][1]) >= 0
    (joined,) = query("epochcast_gpu_power_watts * on(uuid) group_left(simulated) epochcast_gpu_info")
    assert joined["metric"]["simulated"] == "false"
