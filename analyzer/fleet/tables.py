"""The tables of a run: a row per trace, per stretch of work, per epoch, per job, and per trace that failed."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.finding import Finding, JobSpan
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.prices import Rented, rented
from epochcast.analyzer.telemetry.gpu_report import GpuDevice
from epochcast.analyzer.traces.static_gpu import gpu_of
from epochcast.regressor.profile_json import profile_json

_TEXT, _NUMBER, _COUNT, _TEXTS, _FLAG = pa.string(), pa.float64(), pa.int64(), pa.list_(pa.string()), pa.bool_()

SCHEMAS = {
    "gpus": pa.schema(
        {
            **dict.fromkeys(("trace", "version", "uuid", "label", "node", "name", "model", "source"), _TEXT),
            "simulated": _FLAG,
            **dict.fromkeys(("instance", "cloud", "region"), _TEXT),
            "assumed": _FLAG,
            **dict.fromkeys(("start", "end", "seconds", "idle_s", "idle_ratio", "idle_usd"), _NUMBER),
            **dict.fromkeys(("held_idle_s", "held_idle_usd"), _NUMBER),
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
    "jobs": pa.schema(
        {
            **dict.fromkeys(("job", "title", "grouped_by"), _TEXT),
            "gpu_count": _COUNT,
            **dict.fromkeys(("gpus", "traces", "nodes"), _TEXTS),
            "whole": _FLAG,
            "gpu_model": _TEXT,
            "simulated": _FLAG,
            **dict.fromkeys(("start", "end", "gpu_hours"), _NUMBER),
            **dict.fromkeys(("verdict", "unit"), _TEXT),
            **dict.fromkeys(("epoch_s", "epoch_s_low", "epoch_s_high"), _NUMBER),
            "cycle": _TEXT,
            "idle_ratio": _NUMBER,
            "idle_at_boundaries": _TEXTS,
            "ofu": _NUMBER,
            "tensor_cores_idle": _FLAG,
            **dict.fromkeys(("held_idle_s", "held_idle_usd"), _NUMBER),
            "reduced_clock": _TEXT,
            "confidence": _NUMBER,
            "epochs": _COUNT,
            **dict.fromkeys(("busy_ratio", "energy_j", "memory_bytes", "spread"), _NUMBER),
            **dict.fromkeys(("straggler", "straggler_trace"), _TEXT),
            **dict.fromkeys(("waits", "waits_gpu_hours"), _NUMBER),
            **dict.fromkeys(("straggler_why", "action", "advice"), _TEXT),
            **dict.fromkeys(("current_instance", "current_cloud", "current_region"), _TEXT),
            "current_assumed": _FLAG,
            "current_usd_per_hour": _NUMBER,
            **dict.fromkeys(("best_instance", "best_cloud", "best_region", "best_gpu"), _TEXT),
            "best_instances": _COUNT,
            **dict.fromkeys(("best_usd_per_hour", "best_ratio"), _NUMBER),
            **dict.fromkeys(("best_fits", "best_by_data_sheet"), _FLAG),
            **dict.fromkeys(("saving_ratio", "saving_ratio_low", "saving_ratio_high"), _NUMBER),
            **dict.fromkeys(("saving_usd_per_hour", "saving_usd"), _NUMBER),
            "saving_sure": _FLAG,
            "notes": _TEXTS,
            "answer": _TEXT,
        },
        metadata={"schema": "epochcast.fleet-jobs/v1"},
    ),
    "failures": pa.schema(
        dict.fromkeys(("trace", "version", "error"), _TEXT), metadata={"schema": "epochcast.fleet-failures/v1"}
    ),
}
"""Columns of each table; docs/fleet.md explains them."""

# Rows that wait to be written: some megabytes. A stretch has its profile, of 4 kB, a job its answer, of 100 kB.
_ROWS = {"jobs": 250, "epochs": 20_000}
_USUAL_ROWS = 2_000

_HOUR_S = 3600.0


class Tables:
    """All tables of a run while they grow."""

    def __init__(self, folder: Path, writers: Mapping[str, pq.ParquetWriter], advisor: Advisor) -> None:
        """Take what `writing` has opened in ``folder``; catalogue and prices are those of ``advisor``."""
        self._folder, self._writers, self._advisor = folder, writers, advisor
        self._waiting: dict[str, list[dict[str, Any]]] = {name: [] for name in SCHEMAS}
        self._prices: dict[tuple[str, ...], Rented | None] = {}

    def add(self, table: str, *rows: dict[str, Any]) -> None:
        """Add rows, column -> value; a value that is not known is None or missing."""
        self._waiting[table] += rows
        if len(self._waiting[table]) >= _ROWS.get(table, _USUAL_ROWS):
            self._write(table)

    def add_finding(self, finding: Finding) -> None:
        """Add what was found in a trace."""
        self.add("gpus", self._gpu(finding))
        for number, span in enumerate(finding.spans):
            where = {"trace": finding.trace, "uuid": finding.device.uuid, "node": finding.device.node, "span": number}
            self.add("spans", where | _span(span))
            of_epoch = ("start", "end", "seconds", "confidence")
            self.add("epochs", *(where | {name: getattr(epoch, name) for name in of_epoch} for epoch in span.epochs))

    def finish(self, out: Path) -> None:
        """Write what waits, and put each table into ``out``: once there was room for all, as those of two runs do not fit."""
        for name, writer in self._writers.items():
            self._write(name)
            writer.close()
            with (self._folder / f"{name}.parquet").open("rb") as file:
                os.fsync(file.fileno())
        for name in SCHEMAS:
            (self._folder / f"{name}.parquet").replace(out / f"{name}.parquet")

    def _write(self, table: str) -> None:
        self._writers[table].write_table(pa.Table.from_pylist(self._waiting[table], SCHEMAS[table]))
        self._waiting[table].clear()

    def _gpu(self, finding: Finding) -> dict[str, Any]:
        device, quality, on = finding.device, finding.quality, self._rented(finding.device)
        usd_per_s = None if on is None or on.usd_per_gpu_hour is None else on.usd_per_gpu_hour / _HOUR_S
        assumed = on is None or on.assumed
        return {
            "trace": finding.trace,
            "version": finding.version,
            **{name: getattr(device, name) for name in ("uuid", "label", "node", "name", "source", "simulated")},
            **{name: getattr(device, name) or None for name in ("instance", "cloud", "region")},
            "model": self._model(device.name),
            "assumed": assumed,
            **{name: getattr(finding, name) for name in ("start", "end", "seconds", "idle_s", "held_idle_s", "cpu_s")},
            "idle_ratio": None if finding.idle_s is None or not finding.seconds else min(1.0, finding.idle_s / finding.seconds),
            "idle_usd": _cost(finding.idle_s, usd_per_s),
            "held_idle_usd": None if assumed else _cost(finding.held_idle_s, usd_per_s),
            "spans": len(finding.spans),
            "epochs": sum(len(span.epochs) for span in finding.spans),
            **{name: getattr(quality, name) for name in ("rows", "hertz", "missing_ratio", "longest_hole_s")},
            **{name: getattr(quality, name) for name in ("metrics", "silent_metrics", "problems")},
        }

    def _rented(self, device: GpuDevice) -> Rented | None:
        """What one GPU is rented on, each kind looked up once; None of a GPU that nothing is known of."""
        kind = (device.name, device.instance, device.cloud, device.region)
        if kind not in self._prices:
            try:
                gpu = gpu_of(device.name, device.static, self._advisor.catalog).name
                market = self._advisor.configured.limits.market
                self._prices[kind] = rented(gpu, 1, self._advisor.instances, devices=(device,), market=market)
            except ValueError:  # the InputError of any room
                self._prices[kind] = None
        return self._prices[kind]

    def _model(self, name: str) -> str | None:
        try:
            return self._advisor.catalog.resolve(name).name
        except ValueError:  # the InputError of the regressor
            return None


@contextmanager
def writing(out: Path, advisor: Advisor) -> Iterator[Tables]:
    """Write tables into the folder ``out``, where each is as before until `Tables.finish`.

    Raises:
        InputError: the folder cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(dir=out, prefix=".tables") as folder, ExitStack() as stack:
            writers = {
                name: stack.enter_context(pq.ParquetWriter(Path(folder) / f"{name}.parquet", schema, compression="zstd"))
                for name, schema in SCHEMAS.items()
            }
            yield Tables(Path(folder), writers, advisor)
    except OSError as error:
        raise InputError(f"cannot write the tables into {str(out)!r}: {error}") from error


def _cost(seconds: float | None, usd_per_s: float | None) -> float | None:
    return None if seconds is None or usd_per_s is None else seconds * usd_per_s


def _span(span: JobSpan) -> dict[str, Any]:
    profile = span.report.profile
    return {
        **{name: getattr(span, name) for name in ("start", "end", "seconds", "busy_ratio", "energy_j", "memory_bytes")},
        **{name: getattr(span.report.detection, name) for name in ("verdict", "period_s", "confidence")},
        "epochs": len(span.epochs),
        **{name: getattr(profile, name, None) for name in ("unit", "epoch_s", "epoch_s_low", "epoch_s_high")},
        "profile": None if profile is None else json.dumps(profile_json(profile)),
    }
