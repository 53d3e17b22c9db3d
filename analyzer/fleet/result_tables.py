"""The tables of a run: a row per trace, per stretch of work, per epoch, and per trace that failed."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.finding import Failure, Finding, JobSpan
from epochcast.analyzer.fleet.savings import GpuPrices
from epochcast.regressor import Catalog
from epochcast.regressor.profile_json import profile_json

_TEXT, _NUMBER, _COUNT, _TEXTS = pa.string(), pa.float64(), pa.int64(), pa.list_(pa.string())

SCHEMAS = {
    "gpus": pa.schema(
        {
            **dict.fromkeys(("trace", "version", "uuid", "label", "node", "name", "model", "source"), _TEXT),
            "simulated": pa.bool_(),
            **dict.fromkeys(("instance", "cloud", "region"), _TEXT),
            **dict.fromkeys(("start", "end", "seconds", "idle_s", "idle_ratio", "held_idle_s", "held_idle_usd"), _NUMBER),
            **dict.fromkeys(("spans", "epochs", "rows"), _COUNT),
            **dict.fromkeys(("hertz", "missing_ratio", "longest_hole_s"), _NUMBER),
            **dict.fromkeys(("metrics", "silent_metrics", "problems"), _TEXTS),
            "cpu_s": _NUMBER,
        },
        metadata={"schema": "epochcast.fleet-gpus/v1"},
    ),
    "spans": pa.schema(
        {
            **dict.fromkeys(("trace", "uuid", "node"), _TEXT),
            "span": _COUNT,
            **dict.fromkeys(("start", "end", "seconds"), _NUMBER),
            "verdict": _TEXT,
            **dict.fromkeys(("period_s", "confidence"), _NUMBER),
            "epochs": _COUNT,
            "unit": _TEXT,
            **dict.fromkeys(("epoch_s", "epoch_s_low", "epoch_s_high"), _NUMBER),
            **dict.fromkeys(("busy_ratio", "energy_j", "memory_bytes"), _NUMBER),
            "profile": _TEXT,
        },
        metadata={"schema": "epochcast.fleet-spans/v1"},
    ),
    "epochs": pa.schema(
        {
            **dict.fromkeys(("trace", "uuid"), _TEXT),
            "span": _COUNT,
            **dict.fromkeys(("start", "end", "seconds", "confidence"), _NUMBER),
        },
        metadata={"schema": "epochcast.fleet-epochs/v1"},
    ),
    "failures": pa.schema(
        dict.fromkeys(("trace", "version", "error"), _TEXT), metadata={"schema": "epochcast.fleet-failures/v1"}
    ),
}
"""Columns of each table; docs/fleet.md explains them."""

# Rows that wait to be written: some megabytes; a stretch has its profile, of 4 kB.
_ROWS, _EPOCHS = 2_000, 20_000


def tabulated(
    findings: Iterable[Finding], failures: Iterable[Failure], catalog: Catalog, prices: GpuPrices, out: Path
) -> Iterator[Finding]:
    """Yield each finding, and write all tables into the folder ``out``: each appears whole or not at all, and all at the end.

    Raises:
        InputError: the folder cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(dir=out, prefix=".tables") as folder, ExitStack() as stack:
            writers = {name: stack.enter_context(_Writer(Path(folder), name)) for name in SCHEMAS}
            for finding in findings:
                writers["gpus"].add(_gpu(finding, catalog, prices))
                for number, span in enumerate(finding.spans):
                    writers["spans"].add(_span(finding, number, span))
                    writers["epochs"].extend(_epochs(finding, number, span))
                yield finding
            for failure in failures:
                writers["failures"].add(vars(failure))
            for writer in writers.values():
                writer.finish()
            for writer in writers.values():  # once there was room for all: tables of two runs would not fit together
                writer.move(out)
    except OSError as error:
        raise InputError(f"cannot write the tables into {str(out)!r}: {error.strerror or error}") from error


class _Writer:
    """One table, some rows at a time."""

    def __init__(self, folder: Path, name: str) -> None:
        self._name, self._schema = f"{name}.parquet", SCHEMAS[name]
        self._most = _EPOCHS if name == "epochs" else _ROWS
        self._path = folder / self._name
        self._columns: dict[str, list[Any]] = {column: [] for column in self._schema.names}

    def __enter__(self) -> _Writer:
        self._writer = pq.ParquetWriter(self._path, self._schema, compression="zstd")
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def add(self, row: Mapping[str, Any]) -> None:
        self.extend({name: [value] for name, value in row.items()})

    def extend(self, columns: Mapping[str, list[Any]]) -> None:
        for name, held in self._columns.items():
            held += columns[name]
        if len(held) >= self._most:
            self._write()

    def finish(self) -> None:
        self._write()
        self._writer.close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())

    def move(self, out: Path) -> None:
        self._path.replace(out / self._name)

    def _write(self) -> None:
        self._writer.write_table(pa.table(self._columns, schema=self._schema))
        for held in self._columns.values():
            held.clear()


def _gpu(finding: Finding, catalog: Catalog, prices: GpuPrices) -> dict[str, Any]:
    device, quality = finding.device, finding.quality
    identity = {name: getattr(device, name) for name in ("uuid", "label", "node", "name", "source", "simulated")}
    place = {name: getattr(device, name) or None for name in ("instance", "cloud", "region")}
    return {
        "trace": finding.trace,
        "version": finding.version,
        **identity,
        **place,
        "model": _model(device.name, catalog),
        "start": finding.start,
        "end": finding.end,
        "seconds": finding.seconds,
        "idle_s": finding.idle_s,
        "idle_ratio": None if finding.idle_s is None or not finding.seconds else min(1.0, finding.idle_s / finding.seconds),
        "held_idle_s": finding.held_idle_s,
        "held_idle_usd": prices.of(device).held_idle_usd(finding.held_idle_s),
        "spans": len(finding.spans),
        "epochs": sum(len(span.epochs) for span in finding.spans),
        **{name: getattr(quality, name) for name in ("rows", "hertz", "missing_ratio", "longest_hole_s")},
        **{name: list(getattr(quality, name)) for name in ("metrics", "silent_metrics", "problems")},
        "cpu_s": finding.cpu_s,
    }


def _span(finding: Finding, number: int, span: JobSpan) -> dict[str, Any]:
    report, profile = span.report, span.report.profile
    return {
        "trace": finding.trace,
        "uuid": finding.device.uuid,
        "node": finding.device.node,
        "span": number,
        **{name: getattr(span, name) for name in ("start", "end", "seconds", "busy_ratio", "energy_j", "memory_bytes")},
        **{name: getattr(report.detection, name) for name in ("verdict", "period_s", "confidence")},
        "epochs": len(span.epochs),
        **{name: getattr(profile, name, None) for name in ("unit", "epoch_s", "epoch_s_low", "epoch_s_high")},
        "profile": None if profile is None else json.dumps(profile_json(profile)),
    }


def _epochs(finding: Finding, number: int, span: JobSpan) -> dict[str, list[Any]]:
    count = len(span.epochs)
    return {
        "trace": [finding.trace] * count,
        "uuid": [finding.device.uuid] * count,
        "span": [number] * count,
        **{name: [getattr(epoch, name) for epoch in span.epochs] for name in ("start", "end", "seconds", "confidence")},
    }


def _model(name: str, catalog: Catalog) -> str | None:
    try:
        return catalog.resolve(name).name
    except ValueError:  # the InputError of the regressor
        return None
