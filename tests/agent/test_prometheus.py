"""A real Prometheus scrapes a real agent and answers PromQL."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[Callable[[int], Callable[[str], list[dict[str, Any]]]]]:
    """Start Prometheus on an agent's port; what comes back runs an instant query."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus on this machine (Debian: apt install prometheus)")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    processes: list[subprocess.Popen[bytes]] = []

    def start(agent_port: int) -> Callable[[str], list[dict[str, Any]]]:
        config = tmp_path / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s}\n"
            "scrape_configs:\n"
            f"  - {{job_name: epochcast, static_configs: [{{targets: ['127.0.0.1:{agent_port}']}}]}}\n"
        )
        command = [program, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
        command.append(f"--web.listen-address=127.0.0.1:{port}")
        with (tmp_path / "prometheus.log").open("wb") as log:
            processes.append(subprocess.Popen(command, stdout=log, stderr=log))

        def query(expression: str) -> list[dict[str, Any]]:
            url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
            with urllib.request.urlopen(url, timeout=10) as answer:
                result = json.load(answer)
            assert result["status"] == "success"
            return list(result["data"]["result"])

        return query

    yield start
    for process in processes:
        process.terminate()
        process.wait(timeout=20)


def until(condition: Callable[[], bool], seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (urllib.error.URLError, ConnectionError):
            pass  # still starting
        time.sleep(0.3)
    pytest.fail(f"not within {seconds} s")


def test_prometheus_scrapes_the_agent_and_answers(prometheus: Any, start_agent: Callable[..., Any], tmp_path: Path) -> None:
    # A ratio of exactly 0.25 for a minute: whatever Prometheus says about it can be checked.
    lines = ["time,sm_active,power", *(f"{1000 + tick / 10},0.25,{300 + tick % 2}" for tick in range(600))]
    (tmp_path / "trace.csv").write_text("\n".join(lines))
    agent = start_agent("--replay", tmp_path / "trace.csv")
    query = prometheus(agent.port)
    until(lambda: bool(query("epochcast_gpu_power_watts_avg")))
    until(lambda: bool(query("count_over_time(epochcast_gpu_sm_active_seconds_total[6s]) >= 6")))
    (up,) = query("up")
    assert up["value"][1] == "1"
    (mean,) = query("epochcast_gpu_power_watts_avg")
    assert float(mean["value"][1]) == pytest.approx(300.5)
    assert mean["metric"]["name"] == "unknown"
    # rate() of the integral is the exact mean; the slack is for the moment within a tick at which a scrape falls.
    (busy,) = query("rate(epochcast_gpu_sm_active_seconds_total[6s])")
    assert float(busy["value"][1]) == pytest.approx(0.25, rel=0.1)
    (ticks,) = query("epochcast_agent_effective_hertz")
    assert float(ticks["value"][1]) > 0
    (p99,) = query("histogram_quantile(0.99, rate(epochcast_agent_tick_lateness_seconds_bucket[1m]))")
    assert float(p99["value"][1]) >= 0
    (joined,) = query("epochcast_gpu_power_watts * on(uuid) group_left(simulated) epochcast_gpu_info")
    assert joined["metric"]["simulated"] == "false"
