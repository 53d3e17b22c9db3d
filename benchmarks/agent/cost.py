"""What the agent costs: CPU and memory of a real agent process, its lateness, and what heavy reading does to it.

    python benchmarks/agent/cost.py [--seconds 20] [-- --source host]

Part 1 runs ``epochcast-agent`` with the arguments after ``--`` and reads its own figures. Part 2 keeps one sampler at 8 GPUs
x 25 metrics with full ten-minute rings (no driver: values are random numbers) and reads everything over and over meanwhile.
Prints JSON.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from epochcast.agent.api import Api
from epochcast.agent.catalog import catalog
from epochcast.agent.daemon import SWITCH_INTERVAL_S
from epochcast.agent.exposition import registry
from epochcast.agent.sampler import Histogram, Sampler, SystemClock
from epochcast.agent.sources import Device, Row, Tick
from epochcast.agent.store import DeviceStore

GPUS, METRICS, ROWS = 8, 25, 6000


def process_cost(arguments: list[str], seconds: float) -> dict[str, Any]:
    """Return CPU (percent of one core), resident memory, lateness and missed ticks of an agent process."""
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder) / "port"
        command = [sys.executable, "-m", "epochcast.agent", "--port", "0", "--port-file", str(port_file), *arguments]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            while not port_file.exists():
                if process.poll() is not None:
                    raise SystemExit(f"the agent ended with {process.returncode}")
                time.sleep(0.05)
            url = f"http://127.0.0.1:{port_file.read_text().strip()}/metrics"
            before, start = own_figures(url), time.monotonic()
            time.sleep(seconds)
            elapsed, after = time.monotonic() - start, own_figures(url)
        finally:
            process.terminate()
            process.wait()
    return {
        "arguments": arguments,
        "seconds": round(elapsed, 1),
        "cpu_percent": round(100 * (after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]) / elapsed, 2),
        "resident_mb": round(after["process_resident_memory_bytes"] / 1e6, 1),
        "effective_hertz": round(after["epochcast_agent_effective_hertz"], 3),
        "mean_tick_ms": mean_ms(after, "epochcast_agent_tick_seconds"),
        "mean_lateness_ms": mean_ms(after, "epochcast_agent_tick_lateness_seconds"),
        "missed_ticks": after["epochcast_agent_missed_ticks_total"],
    }


def own_figures(url: str) -> dict[str, float]:
    """Return what the agent says about itself on /metrics."""
    with urllib.request.urlopen(url) as answer:
        text = answer.read().decode()
    return {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}


def mean_ms(figures: dict[str, float], name: str) -> float:
    """Return the mean of a histogram in milliseconds."""
    return round(1e3 * figures[f"{name}_sum"] / figures[f"{name}_count"], 3)


class RandomSource:
    """Random numbers of as many GPUs and metrics as a large node has."""

    name = "random"
    hertz = 10.0
    interval = 0.1
    silent_after = 1.0
    recorded_rows = None
    finished = False

    def __init__(self) -> None:
        metrics = tuple(catalog().values())[:METRICS]
        self.devices = tuple(Device(index, f"GPU-{index}", "random", metrics) for index in range(GPUS))
        self._random = np.random.default_rng(0)

    def read(self, tick: Tick) -> Iterable[Row]:
        """Return a row per GPU."""
        return [Row(index, tick.time, self._random.random(METRICS)) for index in range(GPUS)]

    def close(self) -> None:
        """Do nothing."""


def reading_cost(seconds: float) -> list[dict[str, Any]]:
    """Return, per way of reading, how long one answer takes and how late the sampler became meanwhile."""
    source, random = RandomSource(), np.random.default_rng(1)
    stores = [DeviceStore(device, ROWS, 5.0) for device in source.devices]
    start = time.time() - ROWS / 10 - 60
    for store in stores:
        for row in range(ROWS):
            store.add(start + row / 10, random.random(METRICS), 0.0)
    clock = SystemClock()
    sampler = Sampler(source, stores, clock)
    api = Api(sampler, registry(sampler, 5.0))
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    thread = threading.Thread(target=sampler.run)
    thread.start()
    results = []
    for path, query in (
        ("nothing", ""),
        ("/api/v1/samples", "format=json"),
        ("/api/v1/samples", "format=csv"),
        ("/metrics", ""),
    ):
        sampler.tick_seconds, sampler.lateness_seconds, missed = Histogram(), Histogram(), sampler.missed_ticks
        answers, size, begin = 0, 0, time.monotonic()
        while time.monotonic() - begin < seconds:
            if path == "nothing":
                time.sleep(seconds)
            else:
                size = asked(api, path, query)
            answers += 1
        late = dict(zip(map(str, Histogram.BOUNDS), sampler.lateness_seconds.counts, strict=True))
        results.append(
            {
                "read": f"{path} {query}".strip(),
                "answer_s": round((time.monotonic() - begin) / answers, 3),
                "answer_mb": round(size / 1e6, 2),
                "mean_tick_ms": round(1e3 * sampler.tick_seconds.sum / max(1, sum(sampler.tick_seconds.counts)), 3),
                "ticks_by_lateness_s": {bound: count for bound, count in late.items() if count},
                "missed_ticks": sampler.missed_ticks - missed,
            }
        )
    clock.stop()
    thread.join()
    return results


def asked(api: Api, path: str, query: str) -> int:
    """Return the size in bytes of the answer to one request."""
    environ: dict[str, Any] = {}
    setup_testing_defaults(environ)
    environ |= {"PATH_INFO": path, "QUERY_STRING": query}
    return sum(len(piece) for piece in api(environ, lambda *_: lambda _: None))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each measurement (default 20)")
    parser.add_argument("arguments", nargs="*", default=["--source", "host"], help="the agent's own arguments, after --")
    options = parser.parse_args()
    machine = {"cpus": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    machine["load_average"] = os.getloadavg()[0]
    agent = process_cost(options.arguments, options.seconds)
    print(json.dumps({"machine": machine, "agent": agent, "reading": reading_cost(options.seconds)}, indent=2))


if __name__ == "__main__":
    main()
