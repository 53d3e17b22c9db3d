"""How many predictions of distinct profiles the service answers, and how long each takes: a real `epochcast serve`, over HTTP.

    python -m lab.speed.service.predictions_per_second [--seconds 30] [--rates 50 100]

Open loop: requests leave at even intervals whether or not the ones before are answered, and an answer's time counts from when
its request was due, so that a queue shows. Every request has a profile of its own: the example of the API with every figure
moved, on a GPU drawn from the catalogue; each is predicted for all GPUs of the catalogue. The first seconds after the start, in
which threads and libraries come up, are shown apart ("cold"). Client and service share this machine.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Coroutine
from pathlib import Path

import httpx2
import numpy as np

from epochcast.analyzer.jobs.questions import example_profile
from epochcast.regressor import load_catalog
from epochcast.regressor.profile_json import read_profile
from lab.speed.processes import Server, listening, machine

COLD_RATE, COLD_S = 50.0, 5.0


def questions(count: int, seed: int) -> list[bytes]:
    """Bodies of distinct questions."""
    random = np.random.default_rng(seed)
    names = [gpu.name for gpu in load_catalog().values()]
    bodies = []
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
        read_profile(profile)
        bodies.append(json.dumps({"profiles": [profile]}).encode())
    return bodies


async def answered_at(client: httpx2.AsyncClient, body: bytes) -> float:
    """Ask one question; when it was answered, NaN if it was not."""
    try:
        response = await client.post("/api/v1/predictions", content=body, headers={"Content-Type": "application/json"})
    except httpx2.HTTPError:
        return float("nan")
    right = response.status_code == 200 and len(response.json()["predictions"]) > 10
    return time.perf_counter() if right else float("nan")


async def open_loop(url: str, bodies: list[bytes], rate: float) -> list[float]:
    """Seconds from due to answered of each request."""
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        begin = time.perf_counter()

        async def at(due: float, body: bytes) -> float:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            return await answered_at(client, body) - due

        return await asyncio.gather(*(at(begin + number / rate, body) for number, body in enumerate(bodies)))


def measure(service: Server, name: str, loop: Coroutine[None, None, list[float]]) -> None:
    """Run a loop and print what it and the service's own counters tell."""
    before, began = service.figures()["process_cpu_seconds_total"], time.perf_counter()
    took = 1e3 * np.array(asyncio.run(loop))
    elapsed, after = time.perf_counter() - began, service.figures()["process_cpu_seconds_total"]
    median, p99, most = np.nanpercentile(took, (50, 99, 100))
    print(
        f"{name:22} n = {took.size}, {np.isnan(took).sum()} failed: {took.size / elapsed:5.1f}/s; median {median:5.1f} ms, "
        f"p99 {p99:5.1f}, worst {most:5.1f}; {1e3 * (after - before) / took.size:.2f} ms of the service's CPU each",
        flush=True,
    )


def main() -> None:
    """Measure each loop in turn and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="length of an open loop")
    parser.add_argument("--rates", type=float, nargs="*", default=[50.0, 100.0], help="requests per second")
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        settings = f'state = "{name}/state.db"\n'
        with listening("epochcast.analyzer", "serve", folder=Path(name), settings=settings) as service:
            measure(service, "cold", open_loop(service.url, questions(int(COLD_RATE * COLD_S), 1), COLD_RATE))
            for rate in options.rates:
                bodies = questions(int(rate * options.seconds), 0)
                measure(service, f"{rate:g}/s", open_loop(service.url, bodies, rate))
            print(f"{service.figures()['process_resident_memory_bytes'] / 1e6:.0f} MB resident")


if __name__ == "__main__":
    main()
