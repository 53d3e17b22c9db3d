"""What is found in real traces that went through a real Prometheus, and were read back from there by `fleet analyze`.

Written: every sample, as agents send them. Scraped: dcgm-exporter's series, one sample a second. With the traces' own times.
"""

import csv
import gzip
import json
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ..processes import Program, free_port
from .parts import SHARED, Cases, Figure, Part, answer

# Column of a trace -> its series, and by what it is multiplied there.
WRITTEN = {
    "power": ("epochcast_gpu_power_watts", 1),
    "gpu_utilization": ("epochcast_gpu_gpu_utilization_ratio", 1),
    "memory_utilization": ("epochcast_gpu_memory_utilization_ratio", 1),
    "memory_used": ("epochcast_gpu_memory_used_bytes", 1),
    "sm_active": ("epochcast_gpu_sm_active_ratio", 1),
    "tensor_active": ("epochcast_gpu_tensor_active_ratio", 1),
    "dram_active": ("epochcast_gpu_dram_active_ratio", 1),
    "pcie_rx": ("epochcast_gpu_pcie_rx_bytes_per_second", 1),
}
SCRAPED = {
    "power": ("DCGM_FI_DEV_POWER_USAGE", 1),
    "gpu_utilization": ("DCGM_FI_DEV_GPU_UTIL", 100),
    "sm_active": ("DCGM_FI_PROF_SM_ACTIVE", 1),
    "tensor_active": ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 1),
    "dram_active": ("DCGM_FI_PROF_DRAM_ACTIVE", 1),
}


def rows_of(trace: Path, every_s: float) -> Iterator[dict[str, str]]:
    """The rows of a trace, at least so many seconds apart."""
    with gzip.open(trace, "rt") as lines:
        next(lines)
        last = 0.0
        for row in csv.DictReader(lines):
            if float(row["time"]) - last >= every_s:
                last = float(row["time"])
                yield row


def labels_of(trace: Path, scraped: bool) -> str:
    """The labels of its GPU's series."""
    uuid, gpu = trace.name.split(".")[0], json.loads(trace.with_name(f"{trace.name.split('.')[0]}.json").read_text())["gpu"]
    named = {"UUID": uuid, "modelName": gpu, "Hostname": "node"} if scraped else {"uuid": uuid, "name": gpu, "instance": "node"}
    return ",".join(f'{key}="{value}"' for key, value in {"gpu": uuid[-1], "job": "telemetry", **named}.items())


def write_past(traces: Iterable[Path], folder: Path, scraped: bool) -> tuple[float, float]:
    """Have promtool write them as blocks of a database; when they begin and end."""
    times, lines = list[float](), list[str]()
    series = SCRAPED if scraped else WRITTEN
    for trace in traces:
        labels = labels_of(trace, scraped)
        rows = list(rows_of(trace, 0.999 if scraped else 0.0))
        times += (float(row["time"]) for row in rows)
        for column in series.keys() & rows[0].keys():
            name, factor = series[column]
            lines += (f"{name}{{{labels}}} {factor * float(row[column])!r} {row['time']}" for row in rows if row[column])
    (folder / "past.txt").write_text("\n".join([*lines, "# EOF", ""]))
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", folder / "past.txt", folder / "tsdb"]
    subprocess.run(command, check=True, capture_output=True)
    return min(times), max(times)


def read_back(pattern: str, scraped: bool = False) -> Cases:
    """What is found of each GPU, and the jobs, in a Prometheus that holds these traces."""
    import pandas as pd

    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        begin, end = write_past(sorted((SHARED / "real_traces").glob(f"{pattern}.csv.gz")), folder, scraped)
        (folder / "prometheus.yml").touch()
        files = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        options = [*files, f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=100y"]
        server = Program(["prometheus", *options], f"http://127.0.0.1:{port}", folder / "log")
        server.start()
        try:
            while not server.answers("/-/ready"):
                time.sleep(0.1)
            asked = f"--from {begin - 1} --to {end + 1} --processes 1"
            answer(f"fleet analyze {server.url} --out {folder / 'out'} {asked}")
        finally:
            server.stop()
        spans, jobs = (pd.read_parquet(folder / "out" / f"{table}.parquet") for table in ("spans", "jobs"))
    cases: Cases = {f"{span.uuid}, {span.span}": figures(span, "period_s", "epoch_s") for span in spans.itertuples()}
    return cases | {f"job of {' '.join(job.gpus)}": figures(job, "epoch_s", "cycle") for job in jobs.itertuples()}


def figures(row: Any, *more: str) -> dict[str, Figure]:
    """What is kept of a row of the findings: of a number that is not there nothing."""
    document = {key: getattr(row, key) for key in ("verdict", "unit", "confidence", "epochs", *more)}
    document["seconds"] = row.end - row.start
    return {key: None if value != value else value for key, value in document.items()}


def part(name: str, pattern: str, scraped: bool = False) -> Part:
    return Part(name, partial(read_back, pattern, scraped), needs=("shared", "prometheus", "promtool", "fsspec", "pebble"))


PARTS = [
    part("written, 10 Hz of NVML", "h100_ckpt1_gpu*"),
    part("written, 10 Hz of DCGM", "h100_dcgm/h100_dcgm_t3_gpu[0-3]"),
    part("written, every 0.05 s", "gtx970_1_keras_100_0"),
    part("written, every 15 s", "evaluations/wandb_boostcampaitech2_object-detection-level2-cv-11_1it23vkb"),
    part("scraped from dcgm-exporter", "h100_dcgm/h100_dcgm_t3_gpu[0-3]", scraped=True),
    part("scraped, no training", "h100_dcgm/h100_dcgm_i4_gpu*", scraped=True),
]
