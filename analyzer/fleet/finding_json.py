"""Findings as JSON values, as they stand in the part files of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from ..telemetry.gpu_report import MOST_EPOCHS, Device, EpochRecord, Report
from .finding import Finding, Quality, Span


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON values. What stands in it twice is written once: devices, and epochs of reports."""
    spans = []
    for span in finding.spans:
        report = replace(span.report, epochs=()).to_json()
        spans.append(
            {
                "start": span.start,
                "end": span.end,
                "report": report,
                "epochs": [[epoch.start, epoch.end, epoch.confidence] for epoch in span.epochs],
                "busy_ratio": span.busy_ratio,
                "energy_j": span.energy_j,
                "memory_bytes": span.memory_bytes,
            }
        )
    return {
        "trace": finding.trace,
        "version": finding.version,
        "device": asdict(finding.device) | {"static": dict(finding.device.static)},
        "start": finding.start,
        "end": finding.end,
        "idle_s": finding.idle_s,
        "spans": spans,
        "quality": asdict(finding.quality),
        "cpu_s": finding.cpu_s,
    }


def finding_from_json(data: Mapping[str, Any]) -> Finding:
    """Build a finding of what `finding_to_json` gave."""
    told = data["quality"].items()
    quality: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in told}
    parts: dict[str, Any] = {
        "device": Device(**data["device"]),
        "spans": tuple(map(_span, data["spans"])),
        "quality": Quality(**quality),
    }
    return Finding(**{**data, **parts})


def _span(data: Mapping[str, Any]) -> Span:
    since = data["start"]
    epochs = tuple(EpochRecord(start, end, confidence, since) for start, end, confidence in data["epochs"])
    report = replace(Report.from_json(data["report"]), epochs=epochs[-MOST_EPOCHS:])
    return Span(**{**data, "report": report, "epochs": epochs})
