"""The reference of the file formats: the classes that read and write them, and a short example of each."""

import json
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

import pandas as pd
from docstrings import meanings, summary
from markdown import code, head, prose, table
from type_names import type_name

from epochcast.analyzer.backends.convmeter.predictor import ConvmeterManifest
from epochcast.analyzer.backends.distributed.fitted_model import DistributedManifest
from epochcast.analyzer.backends.occupancy.predictor import OccupancyManifest
from epochcast.analyzer.jobs.job import Job
from epochcast.analyzer.jobs.prices import load_instances
from epochcast.analyzer.jobs.watched import WatchedJob
from epochcast.analyzer.telemetry import gpu_report as report
from epochcast.analyzer.traces import trace
from epochcast.detector import Detection
from epochcast.detector.labels import Labels
from epochcast.regressor import Gpu, Profile, model_folder
from epochcast.regressor.model_folder import Manifest
from epochcast.regressor.paper_predictor import PaperManifest
from epochcast.regressor.predictor import RegressorManifest
from epochcast.regressor.profile_json import SCHEMA as PROFILE_SCHEMA
from epochcast.regressor.profile_json import profile_json


def _schema(kind: type) -> str:
    return str(next(each.default for each in fields(kind) if each.name == "schema"))


_GPU = report.GpuDevice(uuid="GPU-8f2c1f0a", label="0", name="Tesla T4", node="node-1", source="nvml")
_STATISTICS = {"mean": 0.87, "std": 0.21, "min": 0.0, "p25": 0.9, "p50": 0.95, "p75": 0.97, "max": 1.0}
_PROFILE = Profile(
    gpu="T4",
    epoch_s=30.2,
    unit="epoch",
    epochs=9,
    metrics={"gpu_utilization": _STATISTICS},
    feature_set="nvml",
    first_epoch_excluded=True,
)
_REPORT = report.Report(
    device=_GPU,
    state="answered",
    detection=Detection("epochs", 30.2, None, (), 0.96, "track", "wall"),
    job_since=1_700_000_000.0,
    epochs_seen=9,
    epochs=(report.EpochRecord(start=1_700_000_241.6, end=1_700_000_271.8, confidence=0.96, job_since=1_700_000_000.0),),
)
_TRACE = trace.Trace(frame=pd.DataFrame({"time": [1_700_000_000.0]}), gpu="Tesla T4", uuid="GPU-8f2c1f0a", source="nvml")
_LABELS = {
    "training": True,
    "epoch_starts": [1_700_000_000.0, 1_700_000_030.2],
    "epoch_ends": [1_700_000_029.9, 1_700_000_060.1],
}

_ANSWERS_ARE = (
    "Commands, HTTP API and fleets answer with the same JSON documents: one trace and the same settings give one document,\n"
    "however you ask. The service fills the same documents for the jobs that it watches. The links lead to every field."
)
_ANSWERS = [
    [
        code(_schema(kind)),
        f"[{kind.__name__}](http-api.md#{kind.__name__.lower()}-object)",
        who,
    ]
    for kind, who in (
        (
            Job,
            "`epochcast predict --json`, `epochcast recommend --json`; `POST /api/v1/predictions`, "
            "`POST /api/v1/recommendations`, the same under `/api/v1/traces`; "
            "`GET /api/v1/jobs/{job}/recommendation`; `answer` of a job that is watched",
        ),
        (
            WatchedJob,
            "`GET /api/v1/jobs/{job}`; the column `answer` of [a fleet's `jobs.parquet`](../fleet.md#the-tables)",
        ),
    )
]


_MODELS = [
    [code(kind.SCHEMA), ", ".join(map(code, list(kind.model_fields)[len(Manifest.model_fields) :])), code(kind.COMMAND)]
    for kind in (RegressorManifest, PaperManifest, DistributedManifest, ConvmeterManifest, OccupancyManifest)
]


def page() -> str:
    """docs/reference/file-formats.md."""
    introduction = (
        "Base units everywhere: unix seconds, ratios from 0 to 1, bytes, bytes/s, watts, hertz, joules, °C. [The\n"
        "policy](../policy.md#schemas) says when the number at the end of a `schema` grows."
    )
    parts = [head("File formats", "For programs that read or write our files.", introduction)]
    parts += ["## Trace", prose(trace.__doc__ or ""), "Its metadata, for example:", _json(_TRACE.metadata())]
    parts += ["Columns that are named as in [the metric catalogue](metrics.md) have the meaning given there."]
    parts += ["## Labels: TRACE.json", f"{summary(Labels)} The file lies next to the trace. Other keys are ignored."]
    parts += [*_attributes(Labels), _json(_LABELS)]
    parts += [f"## Profile: {code(PROFILE_SCHEMA)}", summary(Profile), *_attributes(Profile)]
    parts += ["An example with one metric; a recorded profile has all that its source reads:", _json(profile_json(_PROFILE))]
    parts += [f"## Report of a GPU: {code(report.SCHEMA)}", summary(report), *_attributes(report.Report)]
    for kind in (report.GpuDevice, report.EpochRecord, report.Owner):
        parts += [f"### {kind.__name__}", summary(kind), *_attributes(kind)]
    parts += [_json(report.report_json(_REPORT))]
    parts += ["## Answers", _ANSWERS_ARE, table(["`schema`", "object", "who gives it"], _ANSWERS)]
    parts += [
        "## Model folder",
        prose(model_folder.__doc__ or ""),
        table(["`schema`", "kept next to the arrays", "written by"], _MODELS),
    ]
    parts += ["## Price table (CSV)", prose(load_instances.__doc__ or "").split("\n\n")[1]]
    parts += ["## GPUs of your own (TOML)", "One `[[gpu]]` table for each GPU.", prose(Gpu.__doc__ or ""), *_attributes(Gpu)]
    parts += ["[A whole fleet](../fleet.md#the-tables) describes the tables that the analysis of a fleet writes."]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _attributes(kind: type[Any]) -> Iterator[str]:
    told, hints = meanings(kind), get_type_hints(kind)
    rows = []
    for one in fields(kind):
        required = "yes" if one.default is one.default_factory is MISSING else ""
        rows.append([code(one.name), type_name(hints[one.name], with_null=True), required, told.get(one.name, "")])
    yield table(["field", "type", "required", "meaning"], rows)


def _json(value: object) -> str:
    return f"```json\n{json.dumps(value, indent=2)}\n```"
