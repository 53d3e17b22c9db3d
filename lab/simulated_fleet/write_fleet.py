"""Write a simulated fleet: a trace and its labels for each GPU, what is rented, and the truth.

    OUT/traces/NODE/GPU.parquet   telemetry, `simulated` in its metadata
    OUT/traces/NODE/GPU.json      true epochs (a label file), unless a training shows fewer than two of them
    OUT/nodes.csv                 node, instance, cloud, region, where somebody says what is rented
    OUT/truth.parquet             a row per GPU and job: what `_write_gpu` says of it; `job` is that of all its GPUs, none for
                                  an idle one; `epochs` are those complete in the trace, `epoch_s` the median distance of
                                  their beginnings; `straggler`: the others wait for it, `slow_clock` times as slow as they

Blocks are made in processes of their own; a GPU's samples are held one at a time.
"""

from __future__ import annotations

import csv
import io
import json
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.trace import Trace, write_trace
from epochcast.common.files import write_whole
from lab.simulated_fleet.gpu_trace import draw_recording, faults, readings
from lab.simulated_fleet.job_timelines import JobDrawn, draw_job, idle_seconds, on_gpu
from lab.simulated_fleet.layout import NodeBlock, SimulatedNode, Slot, blocks

START = 1_750_000_000.0
"""When all traces begin [unix s]."""

# A GPU is idle after so long without work, as the detectors have it.
_IDLE_AFTER_S = 15.0
# A second job needs room.
_SEQUENCE_S = 300.0
_BREAKS = ("cut off", "overwritten", "empty", "no time column")

Written = tuple[list[dict[str, Any]], int]
"""Rows of the truth, and the bytes written."""


@dataclass(frozen=True)
class FleetSettings:
    """What to simulate; the same settings write the same fleet, byte for byte of its samples.

    Attributes:
        gpus: how many, 8 to a node.
        minutes: of telemetry, 10 rows a second.
        seed: 0 or more.
        broken: share of the traces that cannot be read (cut off, overwritten, empty, without times), 0..1.
    """

    gpus: int
    minutes: float = 10.0
    seed: int = 0
    broken: float = 0.0

    def __post_init__(self) -> None:
        """Raise InputError for what cannot be simulated."""
        if self.gpus < 1 or self.minutes < 1 or self.seed < 0 or not 0 <= self.broken <= 1:
            raise InputError(f"{self} cannot be simulated; give 1 GPU and 1 minute or more, a seed from 0, broken from 0 to 1")


def write_fleet(
    out: Path,
    settings: FleetSettings,
    *,
    processes: int = 1,
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> dict[str, Any]:
    """Write the fleet below the folder ``out``, which must be new or empty; how much of what was written.

    Args:
        out: the folder.
        settings: what to simulate.
        processes: how many to work in.
        progress: called with the number of GPUs written, and of all.

    Raises:
        InputError: the folder holds something.
    """
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise InputError(f"{str(out)!r} is not empty; name a new folder for the simulated fleet")
    fleet = blocks(settings.gpus, settings.seed, sequences=60 * settings.minutes >= _SEQUENCE_S)
    make = partial(write_block, out / "traces", settings)
    rows: list[dict[str, Any]] = []
    machines: list[SimulatedNode] = []
    done = size = 0
    for block, (of_block, written) in _made(make, list(fleet), processes):
        rows, machines = rows + of_block, [*machines, *block.nodes]
        done, size = done + block.gpus, size + written
        progress(done, settings.gpus)
    table = pa.Table.from_pylist(rows).replace_schema_metadata({"simulated": "true", "settings": json.dumps(vars(settings))})
    write_whole(out / "truth.parquet", lambda file: pq.write_table(table, file, compression="zstd"))
    write_whole(out / "nodes.csv", lambda file: file.write(_nodes_csv(machines).encode()))
    first = {row["trace"]: row["work"] for row in reversed(rows)}
    jobs = {row["job"] for row in rows} - {None}
    works = dict(Counter(first.values()))
    return {"gpus": len(first), "nodes": len(machines), "jobs": len(jobs), "works": works, "bytes": size}


def _made(make: Callable[[NodeBlock], Written], fleet: list[NodeBlock], processes: int) -> Iterator[tuple[NodeBlock, Written]]:
    """Each block with what became of it."""
    if processes == 1:
        yield from ((block, make(block)) for block in fleet)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from zip(fleet, pool.map(make, fleet), strict=True)


def write_block(folder: Path, settings: FleetSettings, block: NodeBlock) -> Written:
    """Write the traces and labels of a block's GPUs."""
    rng = np.random.default_rng([settings.seed, 1, block.number])
    for node in block.nodes:
        (folder / node.name).mkdir(parents=True, exist_ok=True)
    # Ticks and clocks differ a little between nodes.
    late_s = rng.uniform(0, 0.1, len(block.nodes)) + rng.normal(0, 0.003, len(block.nodes))
    rows: list[dict[str, Any]] = []
    size = 0
    for slot in block.slots:
        jobs = jobs_of(slot, block.nodes[0], 60 * settings.minutes, rng)
        for member in range(len(slot.gpus)):
            gpu_rows, written = _write_gpu(folder, settings, block, slot, member, jobs, late_s)
            rows += gpu_rows
            size += written
    return rows, size


def jobs_of(slot: Slot, node: SimulatedNode, seconds: float, rng: np.random.Generator) -> list[tuple[JobDrawn, float, float]]:
    """The slot's jobs, each with its beginning and end [s]."""
    begins, end = rng.random() < 0.3, seconds
    begin = rng.uniform(0.02, 0.15) * seconds if begins else 0.0
    if rng.random() < 0.2:
        end -= rng.uniform(0.02, 0.15) * seconds
    parts = [(begin, end)]
    if len(slot.works) == 2:
        middle, pause_s = begin + rng.uniform(0.4, 0.6) * (end - begin), rng.uniform(0.05, 0.12) * seconds
        parts = [(begin, middle), (middle + pause_s, end)]
    straggles = slot.straggler is not None
    return [
        (draw_job(work, node.device, since, until, rng, straggles=straggles, running=since == 0), since, until)
        for work, (since, until) in zip(slot.works, parts, strict=True)
    ]


def _write_gpu(
    folder: Path,
    settings: FleetSettings,
    block: NodeBlock,
    slot: Slot,
    member: int,
    jobs: list[tuple[JobDrawn, float, float]],
    late_s: np.ndarray[Any, np.dtype[np.float64]],
) -> Written:
    place, index = slot.gpus[member]
    node, seconds, many = block.nodes[place], 60 * settings.minutes, len(slot.gpus)
    rng = np.random.default_rng([settings.seed, 2, crc32(f"{node.name}/{index}".encode())])
    straggler = slot.straggler == member
    timelines = [on_gpu(job, straggler=straggler, alone=many == 1, rng=rng) for job, _, _ in jobs]
    recording = draw_recording(rng)
    shown = list(zip((job for job, _, _ in jobs), timelines, strict=True))
    time, metrics = readings(node.device, shown, seconds, rng, exchanges=many > 1, silent=node.silent, recording=recording)
    begin = START + late_s[place]
    uuid = f"GPU-simulated-{settings.seed}-{node.name}-{index}"
    frame = pd.DataFrame({"time": begin + time, **metrics})
    path = folder / node.name / f"{index}.parquet"
    write_trace(Trace(frame, gpu=node.device.name, uuid=uuid, source="simulator", simulated=True), path)
    broken = _break(path, rng) if rng.random() < settings.broken else ""
    rows, marks = [], []
    for place_of, ((job, since, until), timeline) in enumerate(zip(jobs, timelines, strict=True)):
        starts, ends = timeline.marks()
        marks.append((starts, ends))
        rows.append(
            {
                "trace": f"{node.name}/{index}.parquet",
                "node": node.name,
                "uuid": uuid,
                "device": node.device.name,
                "job": None if job.work == "idle" else f"job-{slot.number + place_of:06d}",
                "work": job.work,
                "job_gpus": many,
                "begin": begin + since,
                "end": begin + until,
                "epochs": len(starts),
                "epoch_s": float(np.median(np.diff(starts))) if len(starts) > 1 else None,
                "step_s": job.period_s,
                "straggler": straggler and job.work in ("training", "steps"),
                "slow_clock": job.slow_clock,
                "idle_s": idle_seconds(timelines, seconds, least_s=_IDLE_AFTER_S),
                "faults": faults(recording, silent=node.silent),
                "broken": broken,
            }
        )
    size = path.stat().st_size
    labels: dict[str, Any] = {
        "epoch_starts": [round(begin + start, 4) for starts, _ in marks for start in starts],
        "epoch_ends": [round(begin + end, 4) for _, ends in marks for end in ends],
        "training": any(job.work == "training" for job, _, _ in jobs),
        "simulated": True,
        "settings": {"seed": settings.seed, "jobs": [row["job"] for row in rows], "works": [row["work"] for row in rows]},
    }
    if not labels["training"] or len(labels["epoch_starts"]) > 1:  # one epoch alone has no period
        sidecar = write_whole(path.with_suffix(".json"), lambda file: file.write(json.dumps(labels).encode()))
        size += sidecar.stat().st_size
    return rows, size


def _break(path: Path, rng: np.random.Generator) -> str:
    """Make the file one that cannot be read; return how."""
    how = _BREAKS[int(rng.integers(len(_BREAKS)))]
    content = path.read_bytes()
    if how == "no time column":
        table = pq.read_table(path)
        pq.write_table(table.rename_columns(["when" if name == "time" else name for name in table.column_names]), path)
        return how
    if how == "cut off":
        content = content[: len(content) // 2]
    elif how == "overwritten":
        content = content[:1000] + bytes(rng.integers(0, 256, len(content) - 1000, dtype=np.uint8))
    else:
        content = b""
    path.write_bytes(content)
    return how


def _nodes_csv(nodes: list[SimulatedNode]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("node", "instance", "cloud", "region"))
    writer.writerows((node.name, node.instance, node.cloud, node.region) for node in nodes if node.instance)
    return text.getvalue()
