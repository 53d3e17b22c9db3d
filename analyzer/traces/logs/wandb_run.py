"""Runs of Weights & Biases: the system metrics that its package samples, and the epochs that a run's history or output says.

A run's folder (``run-…``, ``offline-run-…``) holds ``run-ID.wandb``. Its ``stats`` records are readings every 10 to 30 s, of
each GPU of the machine under ``gpu.3.powerWatts`` (``system.`` may come before it, and ``/l:`` with a node behind it), and of
the process. History rows and printed lines have times, and training scripts mostly log or print the epoch.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.columns import WANDB, WANDB_ACTIVITIES, WANDB_PROCESS
from epochcast.analyzer.traces.logs.logged_run import STEPS, LoggedRun, Rows, last_part
from epochcast.analyzer.traces.logs.wandb_log import SUFFIX, read_records
from epochcast.analyzer.traces.table import DeviceTable

#: Of the machine, as far as it may show an epoch's end: bytes since the run began. They keep their names, since not all disks
#: are watched.
_TRAFFIC = re.compile(r"network\.(sent|recv)|disk\.(.+\.)?(in|out)")

_BATCHES = ("batch_size", "per_device_train_batch_size")  # keys of a configuration

_NO_READINGS = (
    "{!r} has no GPU or process readings; wandb takes the first after about 15 s, and none with x_disable_stats: let the run "
    "go on for longer"
)
_MOST_SAMPLES = 100_000  # of a server's

_IDLE = 5.0  # percent: a GPU that a screen or a monitor uses is no busier

_GPU_KEY = re.compile(r"(?:system[./])?gpu\.(\d+)\.(\w+)(?:/l:(.+))?")
_PROCESS_KEY = re.compile(r"(?:system[./])?([^/]+)(?:/l:.+)?")
_ALLOCATED = "memoryAllocated"  # percent of the memory: all that older versions say of it
_REPEATED = "powerPercent"  # power over its limit

_PRINTED_EPOCH = re.compile(r"(?<!per )\bepoch\b[\s:=#\[(|-]*(\d+(?:\.\d+)?)", re.IGNORECASE)


def run_file(path: str | Path) -> Path | None:
    """The ``.wandb`` file that ``path`` is, or that the folder ``path`` holds; None for anything else.

    Raises InputError for a folder of several.
    """
    path = Path(path)
    if not path.is_dir():
        return path if path.suffix == SUFFIX else None
    files = list(path.glob(f"*{SUFFIX}")) or path.glob(f"*/*{SUFFIX}")
    logs = sorted({file.resolve() for file in files})  # wandb/latest-run is a link to one of the others
    if len(logs) > 1:
        raise InputError(f"{str(path)!r} holds {len(logs)} wandb runs; name one, such as {str(logs[-1].parent)!r}")
    return logs[0] if logs else None


def read(path: Path, *, telemetry: bool = True) -> LoggedRun:
    """The run in a ``.wandb`` file, as far as it can be read.

    Raises InputError for a file that is none of wandb's, for one without any reading of a GPU or of the process, unless it may
    have no ``telemetry``, and where the wandb package is not installed.
    """
    records, lost = read_records(path)
    by_kind = defaultdict(list)
    for record in records:
        by_kind[record.WhichOneof("record_type")].append(record)
    notes = (f"{lost} bytes of {path.name} are damaged or cut off; their records are skipped",) if lost else ()
    stats = [
        (_seconds(record.stats.timestamp), {item.key: _number(item.value_json) for item in record.stats.item})
        for record in by_kind["stats"]
    ]
    tables = _tables(stats, _facts(by_kind["environment"], path), notes)
    if telemetry and not tables:
        raise InputError(_NO_READINGS.format(str(path)))
    rows = [
        {item.key or "/".join(item.nested_key): _number(item.value_json) for item in record.history.item}
        for record in by_kind["history"]
    ]
    return _run(
        tables,
        rows,
        config=_config([*(record.run.config for record in by_kind["run"]), *(record.config for record in by_kind["config"])]),
        output=_printed(
            [*(record.output_raw for record in by_kind["output_raw"]), *(record.output for record in by_kind["output"])]
        ),
    )


def read_object(run: Any) -> LoggedRun:
    """A run as the wandb package hands it out: one of this machine by its folder, one of the server by its history.

    Raises InputError as `read`, and for a server that does not answer.
    """
    folder = getattr(run, "dir", None)
    if isinstance(folder, str) and (log := run_file(Path(folder).parent)) is not None:
        return read(log)
    try:
        stats = run.history(stream="events", samples=_MOST_SAMPLES, pandas=False)
        history, config, metadata = list(run.scan_history()), dict(run.config), getattr(run, "metadata", None) or {}
    except Exception as error:  # those of wandb, of its HTTP client and of its queries have no base of their own
        raise InputError(
            f"wandb does not hand out the run ({type(error).__name__}); give its local folder wandb/run-…"
        ) from error
    tables = _tables([(row["_timestamp"], row) for row in stats if row.get("_timestamp")], _facts_of(metadata), ())
    if not tables:
        raise InputError(_NO_READINGS.format(str(getattr(run, "id", "the run"))))
    return _run(tables, history, config=config)


def _run(tables: list[DeviceTable], rows: Iterable[Mapping[str, Any]], **known: Any) -> LoggedRun:
    run = LoggedRun(history=_history(rows), **known)
    batch = next((run.config[key] for key in _BATCHES if type(run.config.get(key)) is int and run.config[key] >= 1), None)
    job = {"configuration": run.network, "batch": batch}
    return replace(run, tables=[replace(table, metadata={**table.metadata, "job": job}) for table in tables])


def _tables(
    stats: Iterable[tuple[float, Mapping[str, Any]]], facts: Mapping[str, Any], notes: tuple[str, ...]
) -> list[DeviceTable]:
    gpus: dict[tuple[str, int], list[dict[str, float]]] = defaultdict(list)
    process: list[dict[str, float]] = []
    for time, values in stats:
        readings: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
        own: dict[str, float] = {}
        for key, value in values.items():
            if not isinstance(value, int | float):
                continue
            if match := _GPU_KEY.fullmatch(key):
                readings[match[3] or "", int(match[1])][match[2]] = value
            elif (match := _PROCESS_KEY.fullmatch(key)) and (match[1] in WANDB_PROCESS or _TRAFFIC.fullmatch(match[1])):
                own[match[1]] = value
        for gpu, of_gpu in readings.items():
            gpus[gpu].append({"time": time, **of_gpu})
        if not own.keys().isdisjoint(WANDB_PROCESS):
            process.append({"time": time, **own})
    if not gpus:
        if not process:
            return []
        frame = _frame(process)
        traffic = frame[[column for column in frame.columns if _TRAFFIC.fullmatch(column)]]
        metadata = {"gpu": facts.get("cpu"), "source": "host"}
        return [DeviceTable(_renamed(frame, WANDB_PROCESS).join(traffic), metadata, notes=notes)]
    frames = {gpu: _frame(gpus[gpu]) for gpu in sorted(gpus)}
    readings_of_activity = [frame[name].max() for frame in frames.values() for name in WANDB_ACTIVITIES if name in frame]
    factor = 0.01 if max(readings_of_activity, default=0.0) > 1 else 1.0
    names = WANDB | {name: (ours, factor) for name, ours in WANDB_ACTIVITIES.items()}
    several = len({node for node, _ in frames}) > 1
    labels = {gpu: f"{gpu[0]} GPU {gpu[1]}" if several else f"GPU {gpu[1]}" for gpu in frames}
    idle = [gpu for gpu, frame in frames.items() if "gpu" in frame and frame["gpu"].max() <= _IDLE]
    if 0 < len(idle) < len(frames):
        frames = {gpu: frame for gpu, frame in frames.items() if gpu not in idle}
        notes = (*notes, f"{', '.join(labels[gpu] for gpu in idle)} idled throughout the run and took no part in it")
    devices = facts.get("devices", [])
    return [
        _gpu_table(frame, names, devices[gpu[1]] if gpu[1] < len(devices) else {"name": facts.get("gpu")}, labels[gpu], notes)
        for gpu, frame in frames.items()
    ]


def _gpu_table(
    frame: pd.DataFrame, names: Mapping[str, tuple[str, float]], device: Mapping[str, Any], label: str, notes: tuple[str, ...]
) -> DeviceTable:
    known = _renamed(frame, names)
    memory = device.get("memory_total")
    if _ALLOCATED in frame and memory and "memory_used" not in known:
        known["memory_used"] = frame[_ALLOCATED] / 100 * memory
    left_out = {"time", *names, _REPEATED, *([_ALLOCATED] if "memory_used" in known else [])}
    table = known.join(frame[[column for column in frame.columns if column not in left_out]])
    static = {key: device[key] for key in ("memory_total", "cuda_cores") if device.get(key)}
    metadata = {"gpu": device.get("name"), "uuid": device.get("uuid"), "source": "wandb", "static": static}
    return DeviceTable(table, metadata, label, notes)


def _frame(rows: list[dict[str, float]]) -> pd.DataFrame:
    """A row for each time, in its order, with what several records say of it."""
    return pd.DataFrame(rows).groupby("time", sort=True).first().reset_index()


def _renamed(frame: pd.DataFrame, names: Mapping[str, tuple[str, float]]) -> pd.DataFrame:
    renamed = frame[["time"]].copy()
    for name, (ours, factor) in names.items():
        if name in frame and ours not in renamed:
            renamed[ours] = frame[name] * factor
    return renamed


def _facts(environments: Sequence[Any], path: Path) -> dict[str, Any]:
    """``cpu`` and ``gpu``: their models; ``devices``: each GPU's ``name``, ``uuid``, ``memory_total`` [bytes], ``cuda_cores``.

    From the log, where newer versions write them, else from the file that older ones write next to it.
    """
    facts: dict[str, Any] = {}
    for record in environments:
        environment = record.environment
        logged = {
            "cpu": environment.cpu.model,
            "gpu": environment.gpu_type,
            "devices": [
                {"name": gpu.name, "uuid": gpu.uuid, "memory_total": gpu.memory_total, "cuda_cores": gpu.cuda_cores}
                for gpu in environment.gpu_nvidia
            ],
        }
        facts |= {key: value for key, value in logged.items() if value}
    if "gpu" in facts or "devices" in facts:
        return facts
    try:
        metadata = json.loads((path.parent / "files" / "wandb-metadata.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # nothing depends on it
        return facts
    return _facts_of(metadata if isinstance(metadata, dict) else {}) | facts


def _facts_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The same of what wandb writes beside a log, and its server hands out."""
    facts: dict[str, Any] = {}
    devices = metadata.get("gpu_nvidia") or metadata.get("gpu_devices")
    if isinstance(devices, list) and all(isinstance(device, dict) for device in devices):
        facts["devices"] = [
            {
                "name": _text(device.get("name")),
                "uuid": _text(device.get("uuid")),
                "memory_total": _number(str(device.get("memory_total", device.get("memoryTotal")))),
                "cuda_cores": _number(str(device.get("cudaCores"))),
            }
            for device in devices
        ]
    return {"gpu": _text(metadata.get("gpu"))} | facts


def _config(records: Iterable[Any]) -> dict[str, Any]:
    """The configuration at the end, without wandb's own keys; nested keys are joined by dots."""
    config: dict[str, Any] = {}
    for record in records:
        for item in record.update:
            key = item.key or ".".join(item.nested_key)
            if not key.startswith("_"):
                config[key] = _json(item.value_json)
        for item in record.remove:
            config.pop(item.key or ".".join(item.nested_key), None)
    return config


def _history(records: Iterable[Mapping[str, Any]]) -> dict[str, Rows]:
    """The rows of ``epoch``, ``train/epoch``, ``trainer/global_step`` and the like, and of wandb's own ``_step``."""
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for values in records:
        time = values.get("_timestamp")
        for key, value in values.items() if isinstance(time, int | float) else ():
            if (key == STEPS or last_part(key) in ("epoch", "global_step")) and isinstance(value, int | float):
                rows[key].append((float(time or 0.0), float(value)))
    return {key: sorted(of_key) for key, of_key in rows.items()}


def _printed(records: Iterable[Any]) -> Rows:
    """The time and number of each printed line that names an epoch; a line is as late as its end, a progress bar has many."""
    return sorted(
        (time, float(match[1])) for time, line in _lines(records) if (match := _PRINTED_EPOCH.search(line)) is not None
    )


def _lines(records: Iterable[Any]) -> Iterator[tuple[float, str]]:
    unfinished: dict[int, str] = defaultdict(str)  # standard output and standard error come in pieces of lines
    for record in records:
        *complete, unfinished[record.output_type] = re.split(r"[\r\n]", unfinished[record.output_type] + record.line)
        for line in complete:
            yield _seconds(record.timestamp), line


def _seconds(timestamp: Any) -> float:
    return float(timestamp.seconds + timestamp.nanos / 1e9)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _number(text: str) -> float | None:
    """The finite number that a JSON text is; None for anything else."""
    value = _json(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer beyond every float
        return None
    return number if math.isfinite(number) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
