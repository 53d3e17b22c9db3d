"""Remote write to a Prometheus that is stopped for a minute: what arrives, what is dropped, what is counted.

    python -m benchmarks.agent.outage [--down 60]

A real agent on eight GPUs of the stub, a real Prometheus (Debian's). Twice: with the default queue, which outlasts the outage,
and with one that does not. Every sample that the agent kept must be in Prometheus, or in a count. Prints JSON.
"""

import argparse
import json
import math
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .stubbed import Agent, running_agent, show, stubbed_driver

PORT = 19190
URL = f"http://127.0.0.1:{PORT}"
STEADY_S = 10.0
CATCH_UP_S = 90.0


@contextmanager
def prometheus(folder: Path) -> Iterator[None]:
    """Run Prometheus with its data in ``folder`` until the block ends."""
    (folder / "prometheus.yml").write_text("global: {}\n")
    command = [shutil.which("prometheus") or "prometheus", f"--config.file={folder}/prometheus.yml"]
    command += [f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{PORT}"]
    process = subprocess.Popen([*command, "--web.enable-remote-write-receiver"], stderr=subprocess.DEVNULL)
    try:
        while not ready():
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


def ready() -> bool:
    """Whether Prometheus answers."""
    try:
        with urllib.request.urlopen(f"{URL}/-/ready", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def stored(start: float, stop: float) -> int:
    """Return how many samples of GPUs Prometheus holds with times in [start, stop) (unix seconds)."""
    query = urllib.parse.urlencode({"query": f'{{__name__=~"epochcast_gpu_.*"}}[{int(stop - start) + 60}s]', "time": stop + 30})
    with urllib.request.urlopen(f"{URL}/api/v1/query?{query}", timeout=60) as answer:
        series = json.load(answer)["data"]["result"]
    return sum(start <= time < stop for one in series for time, _ in one["values"])


def sampled(agent: Agent, start: float, stop: float) -> int:
    """Return how many values the agent has sampled with times in [start, stop)."""
    gpus = json.loads(agent.text(f"/api/v1/samples?from={start}&to={stop}"))["gpus"]
    return sum(value is not None for gpu in gpus for column in gpu["metrics"].values() for value in column)


def figure(agent: Agent, name: str) -> int:
    """Return one of the agent's own figures about its remote write."""
    return int(agent.figures().get(f"epochcast_agent_push_{name}", 0))


def outage(down: float, queue: int) -> dict[str, Any]:
    """Stop Prometheus for ``down`` seconds with a queue of so many samples; return where each sample went."""
    configuration = f'[push]\nurl = "{URL}/api/v1/write"\ninterval = 1.0\nqueue = {queue}\n'
    with tempfile.TemporaryDirectory() as name, stubbed_driver() as driver:
        folder = Path(name)
        with running_agent(["--source", "gpm"], driver, configuration) as agent:
            with prometheus(folder):
                start = math.ceil(time.time()) + 1.0
                time.sleep(STEADY_S)
            time.sleep(down)
            most_waiting = figure(agent, "queue_samples")
            with prometheus(folder):
                back = time.monotonic()
                while figure(agent, "queue_samples") > 10_000 and time.monotonic() - back < CATCH_UP_S:
                    time.sleep(0.2)
                caught_up = time.monotonic() - back
                time.sleep(STEADY_S)
                stop = math.floor(time.time()) - 4.0  # what is newer may be on its way
                agents, stores = sampled(agent, start, stop), stored(start, stop)
                return {
                    "down_s": down,
                    "queue": queue,
                    "most_waiting": most_waiting,
                    "caught_up_s": round(caught_up, 1),
                    "sampled": agents,
                    "stored": stores,
                    "missing": agents - stores,
                    "counted_as_dropped": figure(agent, "dropped_samples_total"),
                    "rejected": figure(agent, "rejected_samples_total"),
                    "lost_rows": figure(agent, "lost_rows_total"),
                    "retries": figure(agent, "retries_total"),
                    "missed_ticks": agent.figures()["epochcast_agent_missed_ticks_total"],
                }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--down", type=float, default=60.0, help="seconds without Prometheus (default 60)")
    down = parser.parse_args().down
    show({"within the bound": outage(down, 2_000_000), "beyond it": outage(down, 50_000)})


if __name__ == "__main__":
    main()
