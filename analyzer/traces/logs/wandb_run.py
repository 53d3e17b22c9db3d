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
from pathlib import Path
from typing import Any

import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.columns import WANDB, WANDB_ACTIVITIES, WANDB_PROCESS
from epochcast.analyzer.traces.gpu_trace import Trace
from epochcast.analyzer.traces.logs.logged_run import STEPS, KnownEpochs, Rows, counted_epochs, last_part
from epochcast.analyzer.traces.logs.wandb_log import SUFFIX, read_records
from epochcast.analyzer.words import one_name
from epochcast.regressor.job_types import NETWORK_KEYS

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


def read(path: Path) -> list[Trace]:
    """The trace of each GPU in a ``.wandb`` file, or of the process where there is none, as far as it can be read.

    Raises InputError for a file that is none of wandb's, for one without any reading of a GPU or of the process, and where the
    wandb package is not installed.
    """
    records, lost = _records(path)
    notes = (f"{lost} bytes of {path.name} are damaged or cut off; their records are skipped",) if lost else ()
    stats = [
        (_seconds(record.stats.timestamp), {item.key: _number(item.value_json) for item in record.stats.item})
        for record in records["stats"]
    ]
    traces = _traces(stats, _facts(records["environment"], path), _config(records), _epochs(records), notes)
    if not traces:
        raise InputError(_NO_READINGS.format(str(path)))
    return traces


def read_epochs(path: Path) -> KnownEpochs | None:
    """The epochs that a run counted itself; raises InputError as `read`, but needs no readings."""
    return _epochs(_records(path)[0])


def read_object(run: Any) -> list[Trace]:
    """The traces of a run as the wandb package hands it out: of this machine by its folder, of the server by its history.

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
    rows = [(row["_timestamp"], row) for row in stats if row.get("_timestamp")]
    epochs = counted_epochs(_history(history), steps=config.get("steps_per_epoch"))
    traces = _traces(rows, _facts_of(metadata), config, epochs, ())
    if not traces:
        raise InputError(_NO_READINGS.format(str(getattr(run, "id", "the run"))))
    return traces


def _records(path: Path) -> tuple[dict[str, list[Any]], int]:
    """The records of each kind, and how many bytes could not be read."""
    records, lost = read_records(path)
    by_kind = defaultdict(list)
    for record in records:
        by_kind[record.WhichOneof("record_type")].append(record)
    return by_kind, lost


def _epochs(records: Mapping[str, list[Any]]) -> KnownEpochs | None:
    rows = [
        {item.key or "/".join(item.nested_key): _number(item.value_json) for item in record.history.item}
        for record in records["history"]
    ]
    printed = [*(record.output_raw for record in records["output_raw"]), *(record.output for record in records["output"])]
    return counted_epochs(_history(rows), _printed(printed), _config(records).get("steps_per_epoch"))


def _traces(
    stats: Iterable[tuple[float, Mapping[str, Any]]],
    facts: Mapping[str, Any],
    config: Mapping[str, Any],
    epochs: KnownEpochs | None,
    notes: tuple[str, ...],
) -> list[Trace]:
    network = next((config[key] for key in NETWORK_KEYS if isinstance(config.get(key), str)), None)
    batch = next((config[key] for key in _BATCHES if type(config.get(key)) is int and config[key] >= 1), None)
    job = {"configuration": network, "batch": batch}
    rows = [
        {**{key: value for key, value in said.items() if isinstance(value, int | float)}, "time": time} for time, said in stats
    ]
    table = pd.DataFrame(rows, columns=None if rows else ["time"]).groupby("time").first()  # what several records say of a time
    gpus: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    own: dict[str, str] = {}
    for key in map(str, table.columns):
        if match := _GPU_KEY.fullmatch(key):
            gpus[match[3] or "", int(match[1])][key] = match[2]
        elif (match := _PROCESS_KEY.fullmatch(key)) and (match[1] in WANDB_PROCESS or _TRAFFIC.fullmatch(match[1])):
            own[key] = match[1]
    if not gpus:
        if not (known := WANDB_PROCESS.keys() & own.values()):
            return []
        frame = _part(table, own).dropna(subset=list(known), how="all", ignore_index=True)
        traffic = frame[[column for column in frame.columns if _TRAFFIC.fullmatch(column)]]
        frame = _renamed(frame, WANDB_PROCESS).join(traffic)
        return [Trace(frame, gpu=one_name(facts.get("cpu")), source="host", job=job, notes=notes, epochs=epochs)]
    frames = {gpu: _part(table, gpus[gpu]) for gpu in sorted(gpus)}
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
    traces = []
    for gpu, frame in frames.items():
        device = devices[gpu[1]] if gpu[1] < len(devices) else {"name": facts.get("gpu")}
        traces.append(
            Trace(
                _gpu_frame(frame, names, device.get("memory_total")),
                gpu=one_name(device.get("name")),
                uuid=device.get("uuid"),
                source="wandb",
                static={key: device[key] for key in ("memory_total", "cuda_cores") if device.get(key)},
                job=job,
                label=labels[gpu],
                notes=notes,
                epochs=epochs,
            )
        )
    return traces


def _gpu_frame(frame: pd.DataFrame, names: Mapping[str, tuple[str, float]], memory: float | None) -> pd.DataFrame:
    """Readings under our names, other ones under their own; ``memory``: of the GPU [bytes]."""
    known = _renamed(frame, names)
    if _ALLOCATED in frame and memory and "memory_used" not in known:
        known["memory_used"] = frame[_ALLOCATED] / 100 * memory
    left_out = {"time", *names, _REPEATED, *([_ALLOCATED] if "memory_used" in known else [])}
    return known.join(frame[[column for column in frame.columns if column not in left_out]])


def _part(table: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """The columns of these keys under their names, where one of them has a value."""
    return table[list(names)].rename(columns=names).dropna(how="all").reset_index()


def _renamed(frame: pd.DataFrame, names: Mapping[str, tuple[str, float]]) -> pd.DataFrame:
    renamed = frame[["time"]].copy()
    for name, (ours, factor) in names.items():
        if name in frame and ours not in renamed:
            renamed[ours] = frame[name] * factor
    return renamed


def _facts(environments: Sequence[Any], path: Path) -> dict[str, Any]:
    """What is known of the machine, see `_facts_of`: from the log, else from the file that older versions write next to it."""
    from google.protobuf.json_format import MessageToDict

    facts: dict[str, Any] = {}
    for record in environments:
        facts |= _facts_of(MessageToDict(record.environment, preserving_proto_field_name=True))
    if "gpu" in facts or "devices" in facts:
        return facts
    try:
        metadata = json.loads((path.parent / "files" / "wandb-metadata.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):  # nothing depends on it
        return facts
    return _facts_of(metadata if isinstance(metadata, dict) else {}) | facts


def _facts_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Models of ``cpu`` and ``gpu``; ``devices``: each GPU's ``name``, ``uuid``, ``memory_total`` [bytes], ``cuda_cores``."""
    cpu, devices = metadata.get("cpu"), metadata.get("gpu_nvidia") or metadata.get("gpu_devices")
    models = {
        "cpu": cpu.get("model") if isinstance(cpu, dict) else None,
        "gpu": metadata.get("gpu") or metadata.get("gpu_type"),
    }
    known: dict[str, Any] = {name: text for name, model in models.items() if (text := _text(model))}
    if isinstance(devices, list) and all(isinstance(device, dict) for device in devices):
        known["devices"] = [
            {
                "name": _text(device.get("name")),
                "uuid": _text(device.get("uuid")),
                "memory_total": _number(str(device.get("memory_total", device.get("memoryTotal")))),
                "cuda_cores": _number(str(device.get("cuda_cores", device.get("cudaCores")))),
            }
            for device in devices
        ]
    return known


def _config(records: Mapping[str, list[Any]]) -> dict[str, Any]:
    """The configuration at the end, without wandb's own keys; nested keys are joined by dots."""
    config: dict[str, Any] = {}
    for record in [*(record.run.config for record in records["run"]), *(record.config for record in records["config"])]:
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
