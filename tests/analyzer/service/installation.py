"""An agent that replays, the service and Prometheus with the shipped rules: real processes, the state on a disk of its own."""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
from numpy.typing import NDArray

from epochcast.analyzer.traces.trace import Trace, write_trace
from lab.simulator import simulate

from ...processes import Program, free_port, wait_until

WITHIN_S = 30.0
EPOCH_S = 12.0
ROOT = Path(__file__).parents[3]


class OtherClock(BaseHTTPRequestHandler):
    """An agent without GPUs on a machine whose clock differs."""

    offset_s = 0.0

    def date_time_string(self, timestamp: float | None = None) -> str:
        return formatdate(time.time() + self.offset_s, usegmt=True)

    def do_GET(self) -> None:
        body = b'{"schema": "epochcast.gpus/v1", "gpus": []}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


class Installation:
    """An agent, the service and Prometheus; the state is on a small disk."""

    def __init__(self, folder: Path, disk: Path, clock_behind: Path) -> None:
        self.disk, self.state, self.clock_behind = disk, disk / "state.db", clock_behind
        ports = {name: free_port() for name in ("agent", "service", "prometheus")}
        urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        made = simulate(seed=3, epochs=240, epoch_s=EPOCH_S)
        columns = {name: made.metrics[name] for name in ("dram_active", "sm_active", "power")}
        trace = Trace(pd.DataFrame({"time": made.time, **columns}), gpu="Tesla T4", uuid="GPU-t4", source="replay")
        (folder / "traces").mkdir()
        write_trace(trace, folder / "traces/run.parquet")
        (folder / "agent.toml").write_text(f'port = {ports["agent"]}\nreplay = "{folder / "traces"}"\nspeed = 4\n')
        self.other = ThreadingHTTPServer(("127.0.0.1", 0), OtherClock)
        threading.Thread(target=self.other.serve_forever, daemon=True).start()
        sources = (urls["agent"], f"http://127.0.0.1:{self.other.server_port}")
        tables = "".join(f'[[agents]]\nurl = "{url}"\ninterval = 1\n' for url in sources)
        (folder / "analyzer.toml").write_text(f'port = {ports["service"]}\nstate = "{self.state}"\n{tables}')
        rules = (ROOT / "dashboards/training_alerts.yml").read_text()
        (folder / "alerts.yml").write_text(re.sub(r"\n +for: .*", "", rules))
        scrape = {"job_name": "epochcast-analyzer", "static_configs": [{"targets": [f"127.0.0.1:{ports['service']}"]}]}
        times = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        settings = {"global": times, "rule_files": ["alerts.yml"], "scrape_configs": [scrape]}
        (folder / "prometheus.yml").write_text(json.dumps(settings))
        commands: dict[str, list[object]] = {
            "agent": [sys.executable, "-m", "epochcast.agent", "--config", folder / "agent.toml"],
            "service": [sys.executable, "-m", "epochcast.analyzer", "serve", "--config", folder / "analyzer.toml"],
            "prometheus": [
                *("prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"),
                f"--web.listen-address=127.0.0.1:{ports['prometheus']}",
            ],
        }
        self.programs = {name: Program(command, urls[name], folder / f"{name}.log") for name, command in commands.items()}
        self.service = self.programs["service"]

    @property
    def watcher(self) -> psutil.Process:
        (child,) = (one for one in psutil.Process(self.service.pid).children() if "spawn_main" in " ".join(one.cmdline()))
        return child

    @property
    def epochs(self) -> NDArray[np.float64]:
        """Starts of the GPU's epochs [unix s]."""
        listed = self.service.json("/api/v1/gpus/replay-run/epochs", limit="1000")["epochs"]
        return np.array([epoch["start"] for epoch in listed])

    @property
    def notes(self) -> str:
        return " ".join(self.service.json("/api/v1/health")["notes"])

    def alerts(self) -> set[str]:
        firing = self.programs["prometheus"].query('ALERTS{alertstate="firing"}')
        return {row["metric"]["alertname"] for row in firing}

    def seconds_until(self, what: str, condition: Callable[[], object], within_s: float = WITHIN_S) -> float:
        began = time.monotonic()

        def state() -> str:
            return f"{what}; {self.notes}; {self.alerts()}; {self.service.log.read_text()[-2000:]}"

        wait_until(condition, within_s, state)
        return time.monotonic() - began

    def is_well(self) -> bool:
        return self.service.json("/api/v1/health")["status"] == "ok" and self.service.json("/api/v1/jobs")["jobs"] != []


def mount_new(disk: Path, image: Path) -> None:
    """Mount a disk of 8 MB that holds what is in the folder, over the folder."""
    options = ("-q", "-m", "0", "-O", "^has_journal", "-d", disk, image, "8m")
    subprocess.run(["mkfs.ext4", *options], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "loop,errors=remount-ro", image, disk], check=True, capture_output=True)
