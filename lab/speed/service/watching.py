"""What watching 64 GPUs costs: CPU per second of telemetry, and memory of a real `epochcast serve`.

    OMP_NUM_THREADS=1 python -m lab.speed.service.watching [--gpus 64] [--minutes 15]

Eight stand-ins for agents, in a process of their own, answer the analyzer's HTTP questions with simulated telemetry (all
metrics of a T4, 10 Hz, jobs with epochs of 5 to 200 s, all begun at once). CPU: the watcher of `epochcast serve` polls them as
in life, every two seconds of the samples' time, but as fast as it can: HTTP, NPY, detection, profiles and the store are all in
its CPU time. What the service process does next to it is not in it. Memory: a real `epochcast serve` reads all those minutes at
once, as after a restart; its memory is read when all are taken in and every job has been predicted. *Resident* counts what two
processes share (their libraries) twice, *proportional* once, as a control group's limit does.
"""

import argparse
import io
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import psutil

from epochcast.analyzer.live.state_store import StateStore
from epochcast.analyzer.live.watcher import Watcher
from epochcast.analyzer.telemetry.settings import AgentSettings, opened
from epochcast.common.http_server import Limits, Server
from epochcast.regressor import load_catalog
from lab.simulator import simulate
from lab.speed.processes import Server as Service
from lab.speed.processes import listening, machine, memory

AGENTS = 8
POLL_S = 2.0
HERTZ = 10
WINDOW_S = 300.0
LIMITS = Limits(connections=8, waiting=256, request_s=10.0, answer_s=120.0, silence_s=120.0)  # the agent's own
FACTS = {"name": "Tesla T4", "source": "replay", "simulated": True, "lag_s": 0.0, "interval_s": 1 / HERTZ, "static": {}}


def tables(agent: int, gpus: int, minutes: float) -> dict[str, np.ndarray]:
    """The rows of an agent's GPUs, by UUID, as the agent's NPY answers have them."""
    rng = np.random.default_rng([0, agent])
    rows = int(60 * HERTZ * minutes)
    found = {}
    for gpu in range(gpus):
        epoch_s = float(np.exp(rng.uniform(np.log(5), np.log(200))))
        settings: dict[str, Any] = {"validation_s": 0.1 * epoch_s, "gap_s": 0.3, "checkpoint_s": 0.02 * epoch_s}
        trace = simulate(100 * agent + gpu, epochs=int(60 * minutes / epoch_s) + 2, epoch_s=epoch_s, **settings)
        table = np.zeros(rows, [("gpu", "<U8"), ("time", "<f8"), *((name, "<f4") for name in trace.metrics)])
        table["gpu"], table["time"] = str(gpu), trace.time[:rows]
        for name, values in trace.metrics.items():
            table[name] = values[:rows]
        found[f"GPU-{agent}-{gpu}"] = table
    return found


def answered(
    held: dict[str, np.ndarray], most_rows: int, environ: dict[str, Any], start: Callable[..., object]
) -> Iterator[bytes]:
    """Answer as an agent does (WSGI), with at most so many rows of a GPU at once."""
    query = parse_qs(environ["QUERY_STRING"])
    if environ["PATH_INFO"] == "/api/v1/samples":
        since = float(query.get("from", ["-inf"])[0])
        pieces = []
        for uuid in query.get("gpu", held):
            first = int(np.searchsorted(held[uuid]["time"], since, side="right"))
            pieces.append(held[uuid][first : first + most_rows])
        out = io.BytesIO()
        np.lib.format.write_array(out, np.concatenate(pieces), version=(3, 0))
        schema, body = "epochcast.samples/v1", out.getvalue()
    else:
        gpus = [{"uuid": uuid, "label": str(table["gpu"][0]), **FACTS} for uuid, table in held.items()]
        schema, body = "epochcast.gpus/v1", json.dumps({"schema": "epochcast.gpus/v1", "gpus": gpus}).encode()
    start("200 OK", [("Content-Length", str(len(body))), ("X-Epochcast-Schema", schema)])
    yield body


def serve_agents(pipe: Connection, gpus: int, minutes: float) -> None:
    """Stand in for agents until the pipe is closed; sends the newest time of all GPUs, and the addresses.

    They come in two sets: of those that answer with as many rows as there are between two polls, and of those with all.
    """
    each = [tables(agent, gpus // AGENTS, minutes) for agent in range(AGENTS)]
    sets = []
    for most_rows in (int(POLL_S * HERTZ), int(60 * HERTZ * minutes)):
        servers = [Server("127.0.0.1", 0, partial(answered, held, most_rows), name="agent", limits=LIMITS) for held in each]
        for server in servers:
            Thread(target=server.serve_forever, daemon=True).start()
        sets.append([f"http://127.0.0.1:{server.server_port}" for server in servers])
    pipe.send((min(float(table["time"][-1]) for held in each for table in held.values()), *sets))
    pipe.poll(None)


@contextmanager
def agents(gpus: int, minutes: float) -> Iterator[tuple[float, list[str], list[str]]]:
    """Run the stand-ins until the block ends; yields what :func:`serve_agents` sends."""
    pipe, other = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve_agents, args=(other, gpus, minutes), daemon=True)
    process.start()
    yield pipe.recv()
    process.terminate()


def watch(addresses: list[str], minutes: float, folder: Path) -> None:
    """Watch in this process until the samples end, and print what each five minutes cost."""
    now = [0.0]
    store = StateStore(folder / "state.db")
    sources = opened([AgentSettings(url=url, interval=POLL_S) for url in addresses])
    watcher = Watcher(sources, store, catalog=load_catalog(), clock=lambda: now[0])
    cpu, slowest = time.process_time(), 0.0
    for step in range(1, int(60 * minutes / POLL_S) + 1):
        for polled in watcher._polling._polled:
            for told in polled.source.poll():
                before = time.process_time()
                watcher._hear(polled, told)
                slowest = max(slowest, time.process_time() - before)
        # The store is written once a second, not once a poll.
        for _ in range(int(POLL_S)):
            now[0] += 1.0
            watcher._turn()
        if step % (WINDOW_S / POLL_S) == 0:
            spent, cpu = time.process_time() - cpu, time.process_time()
            resident = psutil.Process().memory_info().rss / 1e6
            print(
                f"five minutes until {now[0] / 60:3.0f}: {spent / WINDOW_S:6.2%} of a core, {resident:.0f} MB resident, "
                f"slowest answer taken in {1e3 * slowest:.0f} ms",
                flush=True,
            )
            slowest = 0.0
    verdicts = [report.detection.verdict for report in watcher.reports.values()]
    print(
        f"{len(verdicts)} GPUs: " + ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in ("epochs", "steps", "none"))
    )
    print(f"detectors: {watcher.health.cpu_s:.1f} CPU seconds; state {(folder / 'state.db').stat().st_size / 1e6:.1f} MB")
    store.close()


def all_taken_in(service: Service, gpus: int, newest: float) -> bool:
    """Whether all GPUs' samples up to ``newest`` [unix s] were taken in, and their jobs predicted."""
    told, jobs = (service.json(f"/api/v1/{what}")[what] for what in ("gpus", "jobs"))
    done = len(told) == gpus and all((gpu["last_sample"] or 0) > newest - 1 for gpu in told)
    return done and sum(job["best"] is not None for job in jobs) > 0.8 * len(jobs)


def weigh(addresses: list[str], gpus: int, newest: float, folder: Path) -> None:
    """Let a real service watch, and print the memory of each of its processes."""
    sources = "".join(f'[[agents]]\nurl = "{url}"\n' for url in addresses)
    settings = f'state = "{folder}/service.db"\n{sources}'
    with listening("epochcast.analyzer", "serve", folder=folder, settings=settings) as service:
        while not all_taken_in(service, gpus, newest):
            time.sleep(2)
        time.sleep(10)  # the round of the analysis after the last samples
        held = memory(service.pid).values()
    for one in held:
        print(f"{one.resident / 1e6:6.0f} MB resident, {one.proportional / 1e6:6.0f} MB proportional: {one.command[-60:]}")
    resident, proportional = (sum(sizes) / 1e6 for sizes in zip(*(one[1:] for one in held), strict=True))
    print(f"{resident:6.0f} MB resident, {proportional:6.0f} MB proportional in all")


def main() -> None:
    """Measure CPU, then memory, and print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=15)
    options = parser.parse_args()
    print(f"{options.gpus} GPUs at {HERTZ} Hz, {AGENTS} agents, polled every {POLL_S:g} s; {machine()}")
    with tempfile.TemporaryDirectory() as name, agents(options.gpus, options.minutes) as (newest, slow, whole):
        watch(slow, options.minutes, Path(name))
        weigh(whole, options.gpus, newest, Path(name))


if __name__ == "__main__":
    main()
