"""How many predictions of distinct profiles the service answers, and how long each takes: a real `epochcast serve`, over HTTP.

    python -m benchmarks.service.predictions_per_second [--seconds 30] [--rates 50 100] [--callers 1 2 4 8]

Open loop: requests leave at even intervals whether or not the ones before are answered, and an answer's time counts from when
its request was due, so that a queue shows. Closed loop: so many callers, each asking again as soon as it is answered. Every
request has a profile of its own: the example of the API with every figure moved, on a GPU drawn from the catalogue; each is
predicted for all GPUs of the catalogue. The first seconds after the start, in which threads and libraries come up, are told
apart ("cold"). Client and service share this machine. Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from epochcast.analyzer.answers.question_schema import example_profile
from epochcast.regressor import Profile, load_catalog

PATH = "/api/v1/predictions"
COLD_RATE, COLD_S = 50.0, 5.0


def profiles(count: int, seed: int = 0) -> Iterator[bytes]:
    """Yield bodies of distinct questions."""
    random = np.random.default_rng(seed)
    names = [gpu.name for gpu in load_catalog().values()]
    for _ in range(count):
        profile = example_profile()
        length = float(random.uniform(0.2, 3.0))
        for key in ("epoch_s", "epoch_s_low", "epoch_s_high", "first_epoch_s"):
            if profile.get(key) is not None:
                profile = profile | {key: profile[key] * length}
        metrics = {}
        for name, statistics in profile["metrics"].items():
            scale = float(random.uniform(0.7, 1.0))
            metrics[name] = {key: value * scale for key, value in statistics.items()}
        profile = profile | {"gpu": str(random.choice(names)), "metrics": metrics}
        Profile.from_json(profile)
        yield json.dumps({"profiles": [profile]}).encode()


class Service:
    """A running service.

    Attributes:
        url: its address.
    """

    def __init__(self, url: str) -> None:
        self.url = url

    def cpu_s(self) -> float:
        """CPU seconds of its process so far (its watcher idles)."""
        page = httpx2.get(f"{self.url}/metrics").text
        (line,) = (line for line in page.splitlines() if line.startswith("process_cpu_seconds_total"))
        return float(line.split()[1])

    def rss_mb(self) -> float:
        """Resident memory of its process."""
        page = httpx2.get(f"{self.url}/metrics").text
        (line,) = (line for line in page.splitlines() if line.startswith("process_resident_memory_bytes"))
        return float(line.split()[1]) / 1e6


@contextmanager
def running() -> Iterator[Service]:
    """A service without telemetry, in processes of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "analyzer.toml"
        config.write_text(
            f'port = 0\nport_file = "{folder}/port"\nstate = "{folder}/state.db"\n[limits]\nrequests_per_minute = 0\n'
        )
        command = [sys.executable, "-m", "epochcast.analyzer", "serve", "--config", str(config)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            while not (folder / "port").exists():
                if process.poll() is not None:
                    raise SystemExit("the service ended before it listened")
                time.sleep(0.05)
            yield Service(f"http://127.0.0.1:{(folder / 'port').read_text().strip()}")
        finally:
            process.terminate()
            process.wait()


async def ask(client: httpx2.AsyncClient, body: bytes) -> bool:
    """Ask one question; whether it was answered."""
    try:
        response = await client.post(PATH, content=body, headers={"Content-Type": "application/json"})
    except httpx2.HTTPError:
        return False
    return response.status_code == 200 and len(response.json()["predictions"]) > 10


async def open_loop(url: str, bodies: list[bytes], rate: float) -> tuple[list[float], int]:
    """Return seconds from due to answered of each request, and how many failed."""
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        begin = time.perf_counter()

        async def at(number: int, body: bytes) -> tuple[float, bool]:
            due = begin + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            answered = await ask(client, body)
            return time.perf_counter() - due, answered

        outcomes = await asyncio.gather(*(at(number, body) for number, body in enumerate(bodies)))
    return [took for took, _ in outcomes], sum(not answered for _, answered in outcomes)


async def closed_loop(url: str, bodies: list[bytes], callers: int) -> tuple[list[float], int]:
    """Return seconds of each answer, and how many failed."""
    waiting, took, failed = iter(bodies), [], 0
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:

        async def caller() -> None:
            nonlocal failed
            for body in waiting:
                began = time.perf_counter()
                failed += not await ask(client, body)
                took.append(time.perf_counter() - began)

        await asyncio.gather(*(caller() for _ in range(callers)))
    return took, failed


def figures(service: Service, run: Any, count: int) -> dict[str, Any]:
    """Return what ``run`` (a coroutine of times and failures) and the service's own counters tell."""
    before, began = service.cpu_s(), time.perf_counter()
    took, failed = asyncio.run(run)
    elapsed = time.perf_counter() - began
    milliseconds = 1e3 * np.array(took)
    return {
        "requests": count,
        "failed": failed,
        "per_s": round(count / elapsed, 1),
        "p50_ms": round(float(np.percentile(milliseconds, 50)), 1),
        "p99_ms": round(float(np.percentile(milliseconds, 99)), 1),
        "max_ms": round(float(milliseconds.max()), 1),
        "service_cpu_ms_per_request": round(1e3 * (service.cpu_s() - before) / count, 2),
    }


def main() -> None:
    """Measure each loop in turn and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30.0, help="length of an open loop")
    parser.add_argument("--rates", type=float, nargs="*", default=[50.0, 100.0], help="requests per second")
    parser.add_argument(
        "--callers", type=int, nargs="*", default=[1, 2, 4, 8], help="callers of a closed loop, 500 requests each"
    )
    options = parser.parse_args()
    with running() as service:
        answer: dict[str, Any] = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0], "open": {}, "closed": {}}
        bodies = list(profiles(int(COLD_RATE * COLD_S), seed=1))
        answer["cold"] = figures(service, open_loop(service.url, bodies, COLD_RATE), len(bodies))
        for rate in options.rates:
            bodies = list(profiles(int(rate * options.seconds)))
            answer["open"][f"{rate:g}/s"] = figures(service, open_loop(service.url, bodies, rate), len(bodies))
        for callers in options.callers:
            bodies = list(profiles(500, seed=callers))
            answer["closed"][str(callers)] = figures(service, closed_loop(service.url, bodies, callers), len(bodies))
        answer["rss_mb"] = round(service.rss_mb(), 1)
    print(json.dumps(answer, indent=1))


if __name__ == "__main__":
    main()
