"""Series with labels, as a Prometheus and a Grafana hand them out, put together to one table for each GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.logs.device_table import DeviceTable

if TYPE_CHECKING:
    from epochcast.analyzer.traces.series import Series

#: Labels that name a GPU, a MIG instance of it, and the machine that it is in, the surest first.
_UUIDS = ("uuid", "UUID", "gpu_uuid")
_NUMBERS = ("gpu", "gpu_id", "gpu_index", "index", "minor_number")
_HOSTS = ("Hostname", "hostname", "node", "host", "instance")
_INSTANCE = "GPU_I_ID"


def tables_of_series(series: Sequence[Series], source: str, name: str, notes: tuple[str, ...] = ()) -> list[DeviceTable]:
    """A table of each GPU that the labels name, else one of all series; ``source`` goes into their metadata.

    Names of the agent's and of dcgm-exporter's metrics become those of the catalogue, in base units; others stay. Raises
    InputError, calling the text ``name``, where there is no sample, and for two series that would be one column.
    """
    # Loads the client of a Prometheus: only where there are series.
    from epochcast.analyzer.traces.series import table
    from epochcast.analyzer.traces.columns import DCGM_EXPORTER, SCRAPED, WRITTEN

    meanings = {**WRITTEN, **SCRAPED, **DCGM_EXPORTER}
    by_gpu: dict[tuple[str, ...], list[Series]] = {}
    for samples in series:
        if samples.time.size:
            machine, number, uuid = _gpu(samples.labels)
            # A UUID is enough: an exporter that was restarted may have another address.
            by_gpu.setdefault((uuid,) if uuid else (machine, number) if number else (), []).append(samples)
    if not by_gpu:
        raise InputError(f"{name!r} has no samples; choose a time range in which the GPUs ran, and one series per metric")
    tables = []
    gpus = [_gpu(of_gpu[0].labels) for of_gpu in by_gpu.values()]
    for of_gpu, (_, _, uuid), label in zip(by_gpu.values(), gpus, _labels(gpus), strict=True):
        time, values = table(of_gpu, meanings, exact=True)
        known = pd.DataFrame({"time": time, **values}).set_index("time")
        others = _others([samples for samples in of_gpu if samples.labels.get("__name__") not in meanings], name)
        frame = known.join(others, how="outer").sort_index().reset_index(names="time")
        labels = of_gpu[0].labels
        model = labels.get("modelName") or (labels.get("name") if "uuid" in labels else None)
        tables.append(DeviceTable(frame, {"gpu": model, "uuid": uuid or None, "source": source}, label, notes))
    return tables


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


def _others(series: Sequence[Series], name: str) -> pd.DataFrame:
    """Metrics that no table of ours knows, under their names; those of one name follow each other in time."""
    columns: dict[str, pd.Series[float]] = {}
    for samples in series:
        title = samples.labels.get("__name__") or "value"
        column = pd.Series(samples.values, index=pd.Index(samples.time, name="time"), dtype=np.float64).dropna()
        if (before := columns.get(title)) is not None:
            if len(before.index.intersection(column.index)):
                raise InputError(f"{name!r} holds several series {title!r} of one GPU; choose one by its labels, or name each")
            column = pd.concat([before, column])
        columns[title] = column
    return pd.DataFrame(columns) if columns else pd.DataFrame(index=pd.Index([], name="time", dtype=np.float64))
