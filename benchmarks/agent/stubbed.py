"""What the agent's benchmarks share: eight GPUs on the stub libnvidia-ml, and what a group of processes costs."""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

ROOT = Path(__file__).parents[2]
GPUS = 8
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@contextmanager
def stubbed_driver(gpus: int = GPUS) -> Iterator[dict[str, str]]:
    """Compile the stub; yield the environment in which programs find ``gpus`` busy H200 that differ from update to update."""
    with tempfile.TemporaryDirectory() as folder:
        library, scenario = Path(folder) / "libnvidia-ml.so.1", Path(folder) / "scenario"
        source = ROOT / "tests" / "agent" / "nvml_stub.c"
        subprocess.run(["cc", "-std=c11", "-O2", "-shared", "-fPIC", "-pthread", "-o", library, source, "-lm"], check=True)
        scenario.write_text(f"frozen 1\ngpus {gpus}\nepoch * 20 0.8\nripple 0.2\n")
        Path(f"{scenario}.delivered").write_bytes(bytes(16))
        yield {**os.environ, "LD_LIBRARY_PATH": folder, "NVML_STUB_SCENARIO": str(scenario)}


@dataclass(frozen=True)
class Agent:
    """A running agent: its process, its address."""

    process: subprocess.Popen[bytes]
    url: str

    def text(self, path: str) -> str:
        """Return what the agent answers."""
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return str(answer.read().decode())

    def figures(self) -> dict[str, float]:
        """Return what it says about itself on /metrics: by name, and histograms' buckets by name and bound."""
        families = text_string_to_metric_families(self.text("/metrics"))
        samples = [sample for family in families for sample in family.samples]
        return {f"{sample.name}{sample.labels.get('le', '')}": sample.value for sample in samples}


@contextmanager
def running_agent(arguments: Sequence[str], environment: Mapping[str, str], configuration: str = "") -> Iterator[Agent]:
    """Run an agent with this TOML text as configuration until the block ends; yield it once samples flow."""
    with tempfile.TemporaryDirectory() as folder:
        port_file, toml = Path(folder) / "port", Path(folder) / "agent.toml"
        toml.write_text(configuration)
        command = [sys.executable, "-m", "epochcast.agent", "--config", str(toml), "--port", "0", "--port-file", str(port_file)]
        process = subprocess.Popen(
            [*command, *arguments], env=dict(environment), stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            while not port_file.exists():
                if process.poll() is not None:
                    raise SystemExit(f"the agent ended with {process.returncode}")
                time.sleep(0.05)
            yield Agent(process, f"http://127.0.0.1:{port_file.read_text().strip()}")
        finally:
            process.terminate()
            process.wait()


@dataclass(frozen=True)
class Usage:
    """CPU seconds and resident bytes of all processes of a session."""

    cpu_s: float
    resident_bytes: int


def usage(session: int) -> Usage:
    """Return what the processes of a session (``start_new_session``) have used so far."""
    cpu, resident = 0.0, 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[3]) == session:
            cpu += sum(map(int, fields[11:15])) / TICKS_PER_SECOND  # its own and its ended children's, user and system
            resident += int(fields[21]) * PAGE
    return Usage(cpu, resident)


def measured(session: int, seconds: float) -> dict[str, float]:
    """Return percent of one core over the next ``seconds``, and megabytes resident at the end."""
    before, began = usage(session), time.monotonic()
    time.sleep(seconds)
    after, elapsed = usage(session), time.monotonic() - began
    return {
        "cpu_percent": round(100 * (after.cpu_s - before.cpu_s) / elapsed, 3),
        "resident_mb": round(after.resident_bytes / 1e6, 1),
    }


def machine() -> dict[str, Any]:
    """Return what the figures were measured on."""
    model = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name"))
    return {
        "cpu": model.partition(":")[2].strip(),
        "cpus": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
    }


def show(results: Mapping[str, Any]) -> None:
    """Print the results as JSON, the machine first."""
    print(json.dumps({"machine": machine(), **results}, indent=2))
