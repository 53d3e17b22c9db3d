"""Samples put into bytes: JSON, CSV and NPY (``/api/v1/samples``), piece by piece.

Formatting holds the interpreter, so formatting much at once makes the sampler late: every piece is small.
"""

import csv
import io
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochcast.agent.ring import Column
from epochcast.agent.sources import Device
from epochcast.agent.store import DeviceStore

# Of all three formats; raised when a field is removed or changes its meaning, not when one is added.
SCHEMA = "epochcast.samples/v1"
# Values put into text in one go, and rows copied in one go.
PIECE = 1000
# A GPU's label, as in "0" or "15.13".
LABEL_LENGTH = 8


class Selection(NamedTuple):
    """The request: rows with times in ``[start, stop)`` (unix s), and the metrics by ``names`` that a device has.

    ``intervals``: usual seconds from row to row by the UUID of each device that is being read.
    """

    stores: Sequence[DeviceStore]
    start: float
    stop: float
    names: Sequence[str]
    intervals: Mapping[str, float]

    def rows(self, store: DeviceStore) -> tuple[NDArray[np.float64], dict[str, Column]]:
        """Return times and columns of one device, as `DeviceStore.samples` does."""
        own = {metric.name for metric in store.device.metrics}
        return store.samples(self.start, self.stop, [name for name in self.names if name in own])


def identity(device: Device) -> dict[str, Any]:
    """Return what is said of a device wherever one is named."""
    return {
        "index": device.index,
        "instance": device.instance,
        "label": device.label,
        "uuid": device.uuid,
        "name": device.name,
        "source": device.source,
        "simulated": device.simulated,
        "unmeasured": dict(device.unmeasured),
    }


def as_json(selection: Selection) -> Iterator[bytes]:
    """Yield an object of ``schema``, ``interval_s`` and ``gpus``: identity, ``time`` and ``metrics``, null for no value."""
    interval = min(selection.intervals.values(), default=None)
    yield f'{{"schema":"{SCHEMA}","interval_s":{json.dumps(interval)},"gpus":['.encode()
    for position, store in enumerate(selection.stores):
        time, columns = selection.rows(store)
        head = identity(store.device) | {
            "interval_s": selection.intervals.get(store.device.uuid),
            "missed_ticks": store.missed_ticks,
            "dropped_samples": store.dropped,
            "set_back_to": store.set_back_to,
            "oldest": store.oldest,
        }
        yield (("," if position else "") + json.dumps(head)[:-1] + ',"time":').encode()
        yield from _array(time)
        yield b',"metrics":{'
        for number, (name, column) in enumerate(columns.items()):
            yield (("," if number else "") + json.dumps(name) + ":").encode()
            yield from _array(column)
        yield b"}}"
    yield b"]}"


def as_csv(selection: Selection) -> Iterator[bytes]:
    """Yield lines of ``gpu`` (the label), ``time`` and the metrics, empty for no value, device after device."""
    names = selection.names
    yield _csv([["gpu", "time", *_headers(names)]])
    rows_at_once = max(1, PIECE // (len(names) + 1))
    for store in selection.stores:
        time, columns = selection.rows(store)
        for first in range(0, len(time), rows_at_once):
            piece = slice(first, first + rows_at_once)
            height = len(time[piece])
            cells = [_texts(columns[name][piece], "") if name in columns else [""] * height for name in names]
            yield _csv(zip([store.device.label] * height, _texts(time[piece], ""), *cells, strict=True))


def as_npy(selection: Selection) -> Iterator[bytes]:
    """Yield an NPY file (version 3.0) of one structured array, a row per device and tick, device after device.

    Fields: ``gpu`` U8 (the label), ``time`` f8 (unix s), then the metrics: f4, counters f8; NaN for no value.
    """
    names = selection.names
    counters = {metric.name for store in selection.stores for metric in store.device.metrics if metric.kind == "counter"}
    fields = [(header, "<f8" if name in counters else "<f4") for name, header in zip(names, _headers(names), strict=True)]
    dtype = np.dtype([("gpu", f"<U{LABEL_LENGTH}"), ("time", "<f8"), *fields])
    # The head says how many rows follow: all are taken now (a copy of what the rings hold, some MB).
    taken = [(store, *selection.rows(store)) for store in selection.stores]
    head = repr({"descr": dtype.descr, "fortran_order": False, "shape": (sum(len(time) for _, time, _ in taken),)}).encode()
    magic = np.lib.format.magic(3, 0)
    padding = -(len(magic) + 4 + len(head) + 1) % np.lib.format.ARRAY_ALIGN
    yield magic + struct.pack("<I", len(head) + padding + 1) + head + b" " * padding + b"\n"
    for store, time, columns in taken:
        for first in range(0, len(time), PIECE):
            piece = slice(first, first + PIECE)
            rows = np.zeros(len(time[piece]), dtype)
            rows["gpu"], rows["time"] = store.device.label, time[piece]
            for name, (header, _) in zip(names, fields, strict=True):
                rows[header] = columns[name][piece] if name in columns else np.nan
            yield rows.tobytes()


FORMATS: dict[str, tuple[str, Callable[[Selection], Iterator[bytes]]]] = {
    "json": ("application/json", as_json),
    "csv": ("text/csv; charset=utf-8", as_csv),
    "npy": ("application/x-npy", as_npy),
}


def _headers(names: Iterable[str]) -> list[str]:
    """Return a column header for each metric; none repeats another, ``gpu`` or ``time``: a replay may have any names."""
    headers: list[str] = []
    for name in names:
        header, copies = name, 1
        while header in ("", "gpu", "time", *headers):
            copies += 1
            header = f"{name}_{copies}"
        headers.append(header)
    return headers


def _csv(rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _array(values: Column) -> Iterator[bytes]:
    """Yield a JSON array piece by piece, null for NaN."""
    yield b"["
    for first in range(0, len(values), PIECE):
        yield (("," if first else "") + ",".join(_texts(values[first : first + PIECE], "null"))).encode()
    yield b"]"


def _texts(values: Column | NDArray[np.float64], blank: str) -> list[str]:
    """Return each value in the fewest digits that restore it (a float32's 0.3 is not 0.30000001192092896)."""
    # A recorded 1e39 does not fit a float32; infinity has no JSON.
    return [blank if text in ("nan", "inf", "-inf") else text for text in values.astype(str).tolist()]
