"""What watching 64 GPUs costs: CPU per second of telemetry, and memory.

Run: OMP_NUM_THREADS=1 python -m benchmarks.service.steady_state [--gpus 64] [--minutes 20]

Eight stand-ins for agents, in a process of their own, answer the analyzer's HTTP questions with simulated telemetry (all
metrics of a T4, 10 Hz, jobs with epochs of 5 to 200 s, all begun at once). The watcher of `epochcast serve` polls them as in
life, every two seconds of the samples' time, but as fast as it can: HTTP, NPY, detection, profiles and the store are all in its
CPU time. What the service process does beside it is not measured here.
"""

import argparse
import io
import json
import logging
import multiprocessing
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import numpy as np

from epochcast.analyzer.live.state_store import StateStore
from epochcast.analyzer.live.watcher import Watcher
from epochcast.analyzer.telemetry.settings import AgentSettings
from epochcast.analyzer.telemetry.sources import opened
from epochcast.detector.simulator import simulate
from epochcast.regressor import load_catalog

AGENTS = 8
POLL_S = 2.0
HERTZ = 10


def tables(agent: int, gpus: int, minutes: float, seed: int) -> dict[str, np.ndarray]:
    """The rows of an agent's GPUs, by label, as the agent's NPY answers have them."""
    rng = np.random.default_rng([seed, agent])
    rows = int(60 * HERTZ * minutes)
    found = {}
    for gpu in range(gpus):
        epoch_s = float(np.exp(rng.uniform(np.log(5), np.log(200))))
        settings = {"validation_s": 0.1 * epoch_s, "gap_s": 0.3, "checkpoint_s": 0.02 * epoch_s}
        trace = simulate(seed + 100 * agent + gpu, epochs=int(60 * minutes / epoch_s) + 2, epoch_s=epoch_s, **settings)
        table = np.zeros(rows, [("gpu", "<U8"), ("time", "<f8"), *((name, "<f4") for name in trace.metrics)])
        table["gpu"], table["time"] = str(gpu), trace.time[:rows]
        for name, values in trace.metrics.items():
            table[name] = values[:rows]
        found[str(gpu)] = table
    return found


def serve_agents(pipe: Connection, gpus: int, minutes: float, seed: int, rows_at_once: int) -> None:
    """Stand in for agents until the pipe is closed; sends their addresses. An answer has at most so many rows of a GPU."""
    addresses = []
    for agent in range(AGENTS):
        held = tables(agent, gpus, minutes, seed)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            agent_, held_ = agent, held

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = parse_qs(parts.query)
                if parts.path == "/api/v1/samples":
                    since = float(query.get("from", ["-inf"])[0])
                    pieces = []
                    for label, table in self.held_.items():
                        if not query.get("gpu") or f"GPU-{self.agent_}-{label}" in query["gpu"]:
                            first = int(np.searchsorted(table["time"], since, side="right"))
                            pieces.append(table[first : first + rows_at_once])
                    out = io.BytesIO()
                    np.lib.format.write_array(out, np.concatenate(pieces), version=(3, 0))
                    self.answer(200, out.getvalue(), "epochcast.samples/v1")
                elif parts.path == "/api/v1/gpus":
                    facts = {"name": "Tesla T4", "source": "replay", "simulated": True, "lag_s": 0.0, "interval_s": 1 / HERTZ}
                    rows = [
                        {"uuid": f"GPU-{self.agent_}-{label}", "label": label, "static": {}, **facts} for label in self.held_
                    ]
                    self.answer(200, json.dumps({"schema": "epochcast.gpus/v1", "gpus": rows}).encode())
                elif parts.path == "/newest":
                    newest = min(float(table["time"][-1]) for table in self.held_.values())
                    self.answer(200, json.dumps({"newest": newest}).encode())
                else:
                    self.answer(404, b"{}")

            def answer(self, status: int, body: bytes, schema: str = "") -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("X-Epochcast-Schema", schema)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=server.serve_forever, daemon=True).start()
        addresses.append(f"http://127.0.0.1:{server.server_port}")
    pipe.send(addresses)
    pipe.poll(None)


def resident_mb() -> float:
    """MB of this process that are in memory."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1e3


def watch(addresses: list[str], minutes: float, folder: Path) -> None:
    """Watch until the samples end, and print what each five minutes cost."""
    now = [0.0]
    store = StateStore(folder / "state.db")
    sources = opened([AgentSettings(url=url, interval=POLL_S) for url in addresses])
    watcher = Watcher(sources, store, catalog=load_catalog(), clock=lambda: now[0])
    print(f"before any sample: {resident_mb():.0f} MB resident")
    cpu, slowest, window = time.process_time(), 0.0, 0.0
    for step in range(int(60 * minutes / POLL_S)):
        for polled in watcher._polling._polled:
            answer = polled.source.poll()
            for told in answer:
                before = time.process_time()
                watcher._hear(polled, told)
                slowest = max(slowest, time.process_time() - before)
        # The store is written once a second, not once a poll.
        for _ in range(int(POLL_S)):
            now[0] += 1.0
            watcher._turn()
        if (step + 1) % (300 / POLL_S) == 0:
            spent, cpu = time.process_time() - cpu, time.process_time()
            print(
                f"minutes {window / 60:3.0f} to {now[0] / 60:3.0f}: {100 * spent / 300:5.2f} % of a core, "
                f"{resident_mb():.0f} MB resident, slowest answer taken in {1e3 * slowest:.0f} ms"
            )
            slowest, window = 0.0, now[0]
    reports = watcher.reports.values()
    print(f"detectors: {watcher.health.cpu_s:.1f} CPU seconds; state {(folder / 'state.db').stat().st_size / 1e6:.1f} MB")
    print(
        f"{len(reports)} GPUs: " + ", ".join(f"{sum(r.verdict == v for r in reports)} {v}" for v in ("epochs", "steps", "none"))
    )
    store.close()


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    pipe, other = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    agents = context.Process(
        target=serve_agents,
        args=(other, options.gpus // AGENTS, options.minutes, options.seed, int(POLL_S * HERTZ)),
        daemon=True,
    )
    agents.start()
    addresses = pipe.recv()
    load = Path("/proc/loadavg").read_text().split()[0]
    print(f"{options.gpus} GPUs at {HERTZ} Hz, {AGENTS} agents, polled every {POLL_S:g} s; 1-minute load {load}")
    with tempfile.TemporaryDirectory() as folder:
        watch(addresses, options.minutes, Path(folder))
    agents.terminate()


if __name__ == "__main__":
    main()
