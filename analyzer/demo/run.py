"""The demo from end to end: train and watch, play a GPU trace, predict, recommend, report."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from epochcast.analyzer.charts import cost_figure, detection_figure, ratios_figure
from epochcast.analyzer.demo.recordings import SPEED, TrainerError, gpu_trace, record_training, replay_trace
from epochcast.analyzer.demo.report import write_report
from epochcast.analyzer.errors import AgentError, InputError
from epochcast.analyzer.jobs.cycles import REASONS
from epochcast.analyzer.jobs.job import Job, answer_job, job_json
from epochcast.analyzer.jobs.prices import load_instances
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.jobs.sources import Source, source_of
from epochcast.analyzer.traces.labels import read_labels
from epochcast.analyzer.traces.trace import Trace
from epochcast.common.files import write_whole
from epochcast.detector import Detection, detect
from epochcast.detector import InputError as DetectorInputError
from epochcast.detector.clock import choose
from epochcast.detector.labels import Labels
from epochcast.detector.signals import clean
from epochcast.regressor import InputError as RegressorInputError
from epochcast.regressor import LatencyPredictor, load_catalog

LIVE_SECONDS = 60.0
_FAILURES = (AgentError, TrainerError, InputError, DetectorInputError, RegressorInputError)
TOLERANCE = 0.05
"""A period is right within this share of the true period (design: "Error figures")."""

_NOTHING: dict[str, Any] = {"true_period_s": None, "period_s": None, "verdict": "none", "confidence": 0.0, "found": False}


_PACKAGES = ("epochcast", "numpy", "scipy", "scikit-learn")


def run_demo(
    out: Path, *, live_seconds: float = LIVE_SECONDS, progress: Callable[[str], object] = lambda line: None
) -> dict[str, Any]:
    """Run the whole path on this machine and leave ``summary.json`` and ``report.html`` in the folder ``out``.

    Returns the summary; its keys ``live``, ``replay``, ``predictions`` and ``recommendation`` are those of the command
    contract. A part that fails leaves one sentence in ``problems`` and the other parts go on. ``progress`` gets a line now
    and then. Raises InputError if ``out`` cannot be used.
    """
    began, started = time.monotonic(), datetime.now(UTC)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {str(out)!r} cannot be used as a folder: {error.strerror}") from error
    problems: list[str] = []
    figures: dict[str, Figure] = {}
    live, machine = dict(_NOTHING), platform.machine()
    try:
        live, machine = _live(out, live_seconds, figures, progress)
    except _FAILURES as error:
        problems.append(f"Live training: {error}.")
    replay: dict[str, Any] = {**_NOTHING, "simulated": True}
    answer: dict[str, Any] = {"predictions": [], "recommendation": None}
    unit = "epoch"
    try:
        replay, source = _replay(out, figures, progress)
        progress("predicting its epoch on every GPU")
        answer, unit = json.loads(job_json(_answer(source, figures))), source.profile.unit or "epoch"
    except _FAILURES as error:
        problems.append(f"GPU trace: {error}.")

    summary = {
        "schema": "epochcast.demo/v1",
        "headline": _headline(live, replay, answer["recommendation"]),
        "problems": problems,
        "live": live,
        "replay": replay,
        "unit": unit,
        "predictions": answer["predictions"],
        "recommendation": answer["recommendation"],
        "command": f"epochcast demo --out {out}",
        "started": started.isoformat(timespec="seconds"),
        "seconds": time.monotonic() - began,
        "machine": machine,
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in _PACKAGES},
        },
    }
    write_report(summary, figures, out / "report.html")
    write_whole(out / "summary.json", lambda file: file.write(json.dumps(summary, indent=2, allow_nan=False).encode()))
    return summary


def _live(
    out: Path, seconds: float, figures: dict[str, Figure], progress: Callable[[str], object]
) -> tuple[dict[str, Any], str]:
    """Summary of the live part, and the name of this machine's CPU."""
    trace, training = record_training(out, seconds, progress)
    progress("looking for its epochs")
    labels = read_labels(out / "live.json")
    detection = detect(trace.time, trace.metrics())
    figures["live"] = detection_figure(trace, detection, title="this machine, 10 Hz", true_starts=labels.epoch_starts)
    about = {key: training[key] for key in ("images", "losses", "accuracies")}
    summary = {**compare(trace, labels, detection), **about, "load_average": os.getloadavg()[0]}
    return summary, f"{trace.gpu or platform.machine()}, {os.cpu_count()} CPUs"


def _replay(out: Path, figures: dict[str, Figure], progress: Callable[[str], object]) -> tuple[dict[str, Any], Source]:
    """Summary of the replayed GPU trace, and what predictions start from."""
    original, labels = gpu_trace()
    trace = replay_trace(original, labels, out, progress)
    progress("looking for its epochs")
    source = source_of(trace, "the replayed trace", load_catalog())
    detection, gpu = source.detection, source.profile.gpu
    assert detection is not None  # of a trace
    title = f"{gpu}, {'simulated' if trace.simulated else 'recorded'}, 10 Hz"
    figures["replay"] = detection_figure(trace, detection, title=title, true_starts=labels.epoch_starts)
    return {**compare(trace, labels, detection), "simulated": trace.simulated, "gpu": gpu, "speed": SPEED}, source


def _answer(source: Source, figures: dict[str, Figure]) -> Job:
    """The predictions for the job, and where to run it."""
    instances, _ = load_instances(None, load_catalog())
    job = answer_job([source], LatencyPredictor.load(), instances, JobQuestion(), recommend=True)
    assert job.recommendation is not None
    figures["predictions"] = ratios_figure(job)
    if source.profile.epoch_s is not None:
        figures["cost"] = cost_figure(job.recommendation.placements)
    return job


def _headline(live: dict[str, Any], replay: dict[str, Any], recommendation: dict[str, Any] | None) -> str:
    def part(name: str, result: dict[str, Any]) -> str:
        return f"{name}: {'failed.' if result['true_period_s'] is None else result['sentence']}"

    kind = "Simulated" if replay["simulated"] else "Recorded"
    said = [part(f"{kind} GPU trace", replay)]
    if recommendation:
        said.append(f"{recommendation['verdict']['text']}.")
    return " ".join([*said, part("Live training on this CPU", live)])


def compare(trace: Trace, labels: Labels, detection: Detection) -> dict[str, Any]:
    """How well ``detection`` agrees with ``labels``; keys of ``summary.json``'s ``live`` and ``replay``.

    ``true_period_s`` and ``period_s`` are wall time. ``found`` says whether the error is within 5 % on the
    clock that the detector searched on (``clock``; design: "Error figures", epochs); an abstention is a miss.
    """
    starts = np.array(labels.epoch_starts)
    clock = choose(clean(trace.time, trace.metrics()), detection.clock)
    true_period, true_on_clock = (float(np.median(np.diff(times))) for times in (starts, clock.at(starts)))
    detected = detection.period_s if detection.clock == "wall" else detection.period_work
    error = None if detected is None else 100 * abs(detected / true_on_clock - 1)
    return {
        "true_period_s": true_period,
        "period_s": detection.period_s,
        "verdict": detection.verdict,
        "confidence": detection.confidence,
        "found": error is not None and error <= 100 * TOLERANCE,
        "sentence": _sentence(detection, true_period, error),
        "epochs": len(starts),
        "samples": len(trace.frame),
        "missed_ticks": trace.missed_ticks,
    }


def _sentence(detection: Detection, true_period: float, error: float | None) -> str:
    if detection.reason is not None:
        why = REASONS[detection.reason]
        return f"The detector gave no answer; true epochs are {true_period:.2f} s long. {why[0].upper()}{why[1:]}"
    if detection.period_s is None or error is None:
        return (
            f"The detector gave no answer (confidence {detection.confidence:.2f}): the epochs of {true_period:.2f} s do not "
            "stand out clearly enough in this telemetry."
        )
    clock = " of work" if detection.clock == "work" else ""
    unit = "Epochs" if detection.verdict == "epochs" else "Cycles (too short to be called epochs)"
    if error <= 100 * TOLERANCE:
        return f"{unit} of {detection.period_s:.2f} s, {true_period:.2f} s in truth; {error:.1f} % off in seconds{clock}."
    return (
        f"{unit} of {detection.period_s:.2f} s, {detection.period_s / true_period:.2f} times the true {true_period:.2f} s;"
        f" {error:.0f} % off in seconds{clock}, with confidence {detection.confidence:.2f}."
    )
