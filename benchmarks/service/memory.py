"""How much memory a real `epochcast serve` takes that watches 64 GPUs, process by process.

Run: python -m benchmarks.service.memory [--gpus 64] [--minutes 15]

The stand-ins for agents of `steady_state.py` hold so many minutes of samples, which the service reads at once, as after a
restart; the memory is read when all of them are taken in and every job has been predicted. *Resident* counts what two
processes share (their libraries) twice, *proportional* once, as a control group's limit does.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from .steady_state import AGENTS, HERTZ, serve_agents


def processes(parent: int) -> list[int]:
    """The process and those that it has started."""
    # Children stand with the thread that started them.
    threads = Path(f"/proc/{parent}/task").iterdir()
    children = [child for thread in threads for child in (thread / "children").read_text().split()]
    return [parent, *(grandchild for child in children for grandchild in processes(int(child)))]


def megabytes(process: int) -> tuple[float, float]:
    """Resident and proportional memory."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    figures = {line.split(":")[0]: int(line.split()[1]) / 1e3 for line in lines[1:]}
    return figures["Rss"], figures["Pss"]


def watched(url: str, gpus: int, newest: float) -> bool:
    """Whether all GPUs' samples up to ``newest`` [unix s] were taken in, and their jobs predicted."""
    with suppress(OSError):
        told = json.load(urllib.request.urlopen(f"{url}/api/v1/gpus", timeout=60))["gpus"]
        jobs = json.load(urllib.request.urlopen(f"{url}/api/v1/jobs", timeout=60))["jobs"]
        done = len(told) == gpus and all((gpu["last_sample"] or 0) > newest - 1 for gpu in told)
        return done and sum(job["cheapest"] is not None for job in jobs) > 0.8 * len(jobs)
    return False


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=15)
    options = parser.parse_args()
    pipe, other = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    rows = int(60 * HERTZ * options.minutes)
    agents = context.Process(target=serve_agents, args=(other, options.gpus // AGENTS, options.minutes, 0, rows), daemon=True)
    agents.start()
    addresses = pipe.recv()
    newest = json.load(urllib.request.urlopen(f"{addresses[0]}/newest"))["newest"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = "".join(f'[[agents]]\nurl = "{url}"\n' for url in addresses)
        (folder / "analyzer.toml").write_text(f'state = "{folder}/state.db"\nport = 0\nport_file = "{folder}/port"\n{tables}')
        command = [sys.executable, "-m", "epochcast.analyzer", "serve", "--config", str(folder / "analyzer.toml")]
        service = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        began = time.monotonic()
        while not (folder / "port").exists():
            time.sleep(0.1)
        url = f"http://127.0.0.1:{(folder / 'port').read_text().strip()}"
        while not watched(url, options.gpus, newest):
            time.sleep(2)
        time.sleep(10)  # the round of the analysis after the last samples
        print(f"{options.gpus} GPUs, {options.minutes:g} min each, taken in within {time.monotonic() - began:.0f} s")
        total = [0.0, 0.0]
        for process in processes(service.pid):
            resident, proportional = megabytes(process)
            total = [total[0] + resident, total[1] + proportional]
            title = Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
            print(f"{resident:6.0f} MB resident, {proportional:6.0f} MB proportional: {title[-60:]}")
        print(f"{total[0]:6.0f} MB resident, {total[1]:6.0f} MB proportional in all")
        service.terminate()
        service.wait()
    agents.terminate()


if __name__ == "__main__":
    main()
