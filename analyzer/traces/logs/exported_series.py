"""Series with labels, as a Prometheus and a Grafana hand them out, put together to one table for each GPU.

A Prometheus (VictoriaMetrics, Mimir, Thanos) answers to ``/api/v1/query_range``, saved as a file:
``{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {labels}, "values": [[unix s, "0.97"], …]}]}}``

Grafana's *Inspect > Data > Download CSV* of a panel has a column ``Time``, and one for each series of "Series joined by time".
A series is called by its metric and labels (``{__name__="DCGM_FI_DEV_GPU_UTIL", gpu="0"}`` or ``up{job="node"}``), or by its
legend. A legend with ``GPU 3`` in it is of that GPU, and the rest of it names the metric. Times are unix milliseconds, or in
the browser's zone where *Formatted data* was on; the values must not be formatted, since their units would change from cell
to cell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.columns import DCGM_EXPORTER, SCRAPED, WRITTEN, Meaning
from epochcast.analyzer.traces.csv_text import read_table
from epochcast.analyzer.traces.gpu_trace import Trace
from epochcast.analyzer.traces.series import Series, table
from epochcast.analyzer.traces.timestamps import in_order, unix_seconds
from epochcast.analyzer.words import one_name

#: Labels that name a GPU, a MIG instance of it, and the machine that it is in, the surest first.
_UUIDS = ("uuid", "UUID", "gpu_uuid")
_NUMBERS = ("gpu", "gpu_id", "gpu_index", "index", "minor_number")
_HOSTS = ("Hostname", "hostname", "node", "host", "instance")
_INSTANCE = "GPU_I_ID"

_REMEDY = "save the answer of /api/v1/query_range?query=…&start=…&end=…&step=1"
_EXCEL = re.compile(r"^sep=.\r?\n")  # the first line of a download for Excel
_HEADER = re.compile(r'^"?Time"?\s*,')
_NAME = re.compile(r"\s*([A-Za-z_:][\w:]*)?\s*\{(.*)\}\s*")
_LABEL = re.compile(r'([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_LEGEND = re.compile(r"[\s,:;(/|-]*\bGPU[\s:#_-]*(\d{1,3})\b[\s,:;)/|-]*", re.IGNORECASE)


def is_of_prometheus(head: str) -> bool:
    """By the beginning of the answer's object."""
    return re.match(r'\s*\{\s*"(status|data|resultType)"\s*:', head) is not None


def read_prometheus(text: str, name: str) -> list[Trace]:
    """The trace of each GPU. Raises InputError for an answer to another question, and for none."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{name!r} begins like a Prometheus answer but is not JSON: {error}; save the complete answer"
        ) from error
    if answer.get("status", "success") != "success":
        raise InputError(f"{name!r} is an error from Prometheus ({str(answer.get('error'))[:200]!r}); {_REMEDY}")
    data = answer.get("data", answer)
    if not isinstance(data, dict) or data.get("resultType") != "matrix":
        seen = data.get("resultType") if isinstance(data, dict) else data
        raise InputError(f"{name!r} holds {str(seen)[:60]!r}, not a matrix of samples over time; {_REMEDY}")
    series = []
    try:
        for entry in data["result"]:
            samples = np.array([(float(time), float(value)) for time, value in entry["values"]], np.float64).reshape(-1, 2)
            if not np.isfinite(samples[:, 0]).all():
                raise ValueError("an invalid time")
            samples = samples[np.argsort(samples[:, 0], kind="stable")]
            samples[~np.isfinite(samples[:, 1]), 1] = np.nan  # a division by zero, say
            labels = {str(label): str(value) for label, value in entry["metric"].items()}
            series.append(Series(labels, samples[:, 0], samples[:, 1]))
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{name!r} holds invalid samples ({error!r:.100}); {_REMEDY}") from error
    return _traces(series, "prometheus", name)


def is_of_grafana(head: str) -> bool:
    """By its first column, ``Time``."""
    return _HEADER.match(_EXCEL.sub("", head)) is not None


def read_grafana(text: str, name: str) -> list[Trace]:
    """The trace of each GPU. Raises InputError for cells that are no numbers, and for two series that would be one column."""
    table, notes = read_table(_EXCEL.sub("", text), name)
    if "Time" not in table:  # a quote that is not closed
        raise InputError(f"{name!r} has a broken header line; download it again")
    times, local, said = unix_seconds(table["Time"], "Time", name)
    notes += said
    if times.isna().any():
        row = int(np.flatnonzero(times.isna())[0])
        raise InputError(f"{name!r} has no time in data row {row + 1}; download it again, or remove the row")
    time, order, said = in_order(times.to_numpy(dtype=np.float64), local=local)
    table, time, notes = table.iloc[order], time[order], notes + said
    series = []
    for title in table.columns.drop("Time"):
        values = pd.to_numeric(table[title], errors="coerce")
        if (bad := values.isna() & table[title].notna() & (table[title] != "null")).any():
            row = int(np.flatnonzero(bad)[0])
            raise InputError(
                f"{title[:80]!r} of {name!r} holds {str(table[title].iloc[row])[:60]!r} in data row {row + 1}; "
                "download it again with 'Formatted data' switched off (Inspect > Data > Data options)"
            )
        numbers = values.to_numpy(dtype=np.float64)
        there = np.isfinite(numbers)
        series.append(Series(_labels_of(str(title)), time[there], numbers[there]))
    if any(_LEGEND.search(str(title)) and not _NAME.fullmatch(str(title)) for title in table.columns):
        notes.append("its series are assigned to GPUs by their legends")
    return _traces(series, "grafana", name, tuple(notes))


def _traces(series: Sequence[Series], source: str, name: str, notes: tuple[str, ...] = ()) -> list[Trace]:
    """The trace of each GPU that the labels name, else one of all series; ``source`` goes into it.

    Names of the agent's and of dcgm-exporter's metrics become those of the catalogue, in base units; others stay. Raises
    InputError, calling the text ``name``, where there is no sample, and for two series that would be one column.
    """
    meanings = {**WRITTEN, **SCRAPED, **DCGM_EXPORTER}
    by_gpu: dict[tuple[str, ...], list[Series]] = {}
    for samples in series:
        if samples.time.size:
            samples = samples._replace(
                labels={"__name__": "value"} | {name: text for name, text in samples.labels.items() if text}
            )
            machine, number, uuid = _gpu(samples.labels)
            # A UUID is enough: an exporter that was restarted may have another address.
            by_gpu.setdefault((uuid,) if uuid else (machine, number) if number else (), []).append(samples)
    if not by_gpu:
        raise InputError(f"{name!r} has no samples; choose a time range in which the GPUs ran, and one series per metric")
    traces = []
    gpus = [_gpu(of_gpu[0].labels) for of_gpu in by_gpu.values()]
    for of_gpu, (_, _, uuid), label in zip(by_gpu.values(), gpus, _labels(gpus), strict=True):
        others = _others(of_gpu, meanings, name)
        time, values = table(of_gpu, {**others, **meanings}, exact=True)
        labels = of_gpu[0].labels
        model = labels.get("modelName") or (labels.get("name") if "uuid" in labels else None)
        frame = pd.DataFrame({"time": time, **values})
        traces.append(Trace(frame, gpu=one_name(model), uuid=uuid or None, source=source, label=label, notes=notes))
    return traces


def _gpu(labels: Mapping[str, str]) -> tuple[str, str, str]:
    """Machine, number and UUID of the GPU that the labels name, each empty where they do not."""
    machine, number, uuid = (
        next((labels[name] for name in names if labels.get(name)), "") for names in (_HOSTS, _NUMBERS, _UUIDS)
    )
    part = labels.get(_INSTANCE)
    return machine, f"{number}.{part}" if number and part else number, f"{uuid}/{part}" if uuid and part else uuid


def _labels(gpus: Sequence[tuple[str, str, str]]) -> list[str | None]:
    """A name for each GPU: its number, with its machine or in the order of the text where that is not enough."""
    if len(gpus) == 1:
        return [None]
    choices = (
        [f"GPU {number}" if number else "no GPU" for _, number, uuid in gpus if number or not uuid],
        [f"{machine} GPU {number}" for machine, number, _ in gpus if machine and number],
        [f"GPU {place}" for place in range(len(gpus))],
    )
    return list(next(labels for labels in choices if len(set(labels)) == len(gpus)))


def _others(series: Sequence[Series], known: Mapping[str, Meaning], name: str) -> dict[str, Meaning]:
    """Metrics that no table of ours knows keep their names; InputError for several of one name at one time."""
    others: dict[str, list[Series]] = {}
    for samples in series:
        if (title := samples.labels["__name__"]) not in known:
            others.setdefault(title, []).append(samples)
    for title, alike in others.items():
        times = np.concatenate([samples.time[~np.isnan(samples.values)] for samples in alike])
        if np.unique(times).size < times.size:
            raise InputError(f"{name!r} holds several series {title!r} of one GPU; choose one by its labels, or name each")
    return {title: Meaning(title, "last") for title in others}


def _labels_of(title: str) -> dict[str, str]:
    """The labels that a series' title says, ``__name__`` among them."""
    if named := _NAME.fullmatch(title):
        labels = {label: re.sub(r"\\(.)", r"\1", value) for label, value in _LABEL.findall(named[2])}
        return labels | ({"__name__": named[1]} if named[1] else {})
    if legend := _LEGEND.search(title):
        rest = " ".join(filter(None, (title[: legend.start()].strip(), title[legend.end() :].strip())))
        return {"gpu": legend[1]} | ({"__name__": rest} if rest else {})
    return {"__name__": title}
