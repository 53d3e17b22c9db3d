"""Runs of wandb of our own making: messages of its package, in the log format that it writes, and one that it writes itself."""

import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

BEGIN = 1_795_000_000.0
INTERVAL_S = 15.0
EPOCH_S = 150.0
EPOCHS = 12

#: What is read of one GPU in 24 GiB of memory -> its spelling by wandb 0.13, by 0.31, and in what its server hands out.
SPELLINGS = {
    "old": "gpu.{gpu}.{name}",
    "new": "gpu.{gpu}.{name}",
    "exported": "system.gpu.{gpu}.{name}",
    "labelled": "gpu.{gpu}.{name}/l:node-7",
}
TOTAL_BYTES = 24 * 2**30
_TRAIN = """
import time, wandb
often = wandb.Settings(x_stats_sampling_interval=0.2)
run = wandb.init(project="digits", config={"batch_size": 32, "network": "mlp"}, settings=often)
for epoch in range(4):
    begin = time.monotonic()
    while time.monotonic() - begin < 1:
        sum(number * number for number in range(10_000))
    print(f"epoch {epoch} done")
    run.log({"epoch": epoch, "loss": 1 / (epoch + 1)})
run.finish()
"""


def offline_run(folder: Path) -> Path:
    """The folder of a run that the wandb package has just kept, of a script of four epochs of a second, without any network."""
    own = {f"WANDB_{name}_DIR": str(folder / name) for name in ("CACHE", "CONFIG", "DATA")}
    env = {**os.environ, **own, "WANDB_DIR": str(folder), "WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    env.pop("PYTHONPATH", None)
    done = subprocess.run([sys.executable, "-c", _TRAIN], env=env, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    (run,) = folder.glob("wandb/offline-run-*")
    return run


def busy(tick: int, gpu: int = 0) -> float:
    """The utilisation [%] of a GPU that validates in the last fifth of each epoch."""
    phase = (tick * INTERVAL_S % EPOCH_S) / EPOCH_S
    return (35.0 if phase >= 0.8 else 92.0) + 3 * np.sin(1.3 * tick + gpu)


def stats(spelling: str = "new", busy_gpus: Iterable[int] = (0, 1), ticks: int | None = None) -> list[dict[str, Any]]:
    """Stats records of two GPUs, of which some idle, over all epochs."""
    ticks = int(EPOCHS * EPOCH_S / INTERVAL_S) if ticks is None else ticks
    return [stat(tick, spelling, tuple(busy_gpus)) for tick in range(ticks)]


def stat(tick: int, spelling: str, busy_gpus: tuple[int, ...]) -> dict[str, Any]:
    values: dict[str, float] = {"cpu": 50.0, "proc.memory.rssMB": 2048.0, "proc.cpu.threads": 24.0, "network.sent": 1e4 * tick}
    for gpu in range(2):
        share = busy(tick, gpu) if gpu in busy_gpus else 0.0
        said = {
            "gpu": share,
            "memory": share / 2,
            "memoryAllocated": 25.0 + gpu,
            "temp": 60.0 + gpu,
            "powerWatts": 100 + share,
            "powerPercent": (100 + share) / 3,
        }
        if spelling != "old":
            said |= {
                "memoryAllocatedBytes": (25.0 + gpu) / 100 * TOTAL_BYTES,
                "smClock": 1410.0,
                "enforcedPowerLimitWatts": 300.0,
                "smActive": 0.9 * share,
                "pcieTxBytes": 10 * share,
                "fanSpeed": 0.0,
            }
        values |= {SPELLINGS[spelling].format(gpu=gpu, name=name): value for name, value in said.items()}
        values[f"gpu.process.{gpu}.gpu"] = share
    return {"stats": {"timestamp": BEGIN + tick * INTERVAL_S, "item": values}}


def history(rows: Iterable[tuple[float, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """History records of (seconds after the begin, what is logged)."""
    return [
        {"history": {"item": {**row, "_timestamp": BEGIN + after, "_step": step}}} for step, (after, row) in enumerate(rows)
    ]


def per_epoch(epochs: int = EPOCHS) -> list[dict[str, Any]]:
    """A history row at the end of each epoch."""
    return history((EPOCH_S * (epoch + 1), {"epoch": epoch, "loss": 1.0}) for epoch in range(epochs))


def run_record(run_id: str = "ab12cd34", **config: Any) -> dict[str, Any]:
    """The first record of a run."""
    return {"run": {"run_id": run_id, "project": "vision", "config": {"_wandb": {}, **config}}}


def environment(gpu: str = "NVIDIA A10G") -> dict[str, Any]:
    """What newer versions say of the machine."""
    devices = [
        {"name": gpu, "memory_total": TOTAL_BYTES, "cuda_cores": 9216, "uuid": f"GPU-{number}a-{number}b"}
        for number in range(2)
    ]
    return {"environment": {"gpu_type": gpu, "gpu_count": 2, "gpu_nvidia": devices, "cpu": {"model": "EPYC 7R32"}}}


def write(path: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    """A ``.wandb`` file of these records (record type -> its fields, key -> value for items), as the package writes it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(log_of(message_of(record) for record in records))
    return path


def log_of(messages: Iterable[bytes]) -> bytes:
    """Messages in wandb's log format, split where a block of 32 KiB ends."""
    log = bytearray(struct.pack("<4sHB", b":W&B", 0xBEE1, 0))
    for message in messages:
        rest, begun = message, False
        while True:
            room = 32768 - len(log) % 32768
            if room < 7:
                log += bytes(room)
                room = 32768
            part, rest = rest[: room - 7], rest[room - 7 :]
            kind = (3 if rest else 4) if begun else (2 if rest else 1)
            log += struct.pack("<IHB", zlib.crc32(part, zlib.crc32(bytes([kind]))), len(part), kind) + part
            begun = True
            if not rest:
                break
    return bytes(log)


def message_of(record: Mapping[str, Any]) -> bytes:
    """A record as the protobuf message of the wandb package."""
    from google.protobuf.json_format import ParseDict
    from wandb.proto.wandb_internal_pb2 import Record

    ((kind, fields),) = record.items()
    fields = dict(fields)
    message = Record()
    part = getattr(message, kind)
    part.SetInParent()
    stamp = fields.pop("timestamp", None)
    if stamp is not None:
        part.timestamp.seconds, part.timestamp.nanos = int(stamp), round(stamp % 1 * 1e9)
    for key, value in fields.pop("item", {}).items():
        part.item.add(**({"nested_key": [key]} if kind == "history" else {"key": key}), value_json=json.dumps(value))
    for key, value in fields.pop("config", {}).items():
        part.config.update.add(key=key, value_json=json.dumps(value))
    ParseDict(fields, part)
    return message.SerializeToString()
