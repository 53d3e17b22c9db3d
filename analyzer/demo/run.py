"""The demo from end to end: train and watch, replay a GPU trace, predict, recommend, report."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from ...detector import InputError as DetectorInputError
from ...detector import detect
from ...regressor import InputError as RegressorInputError
from ...regressor import Prediction, Predictor, load_catalog
from ..answers.job_result import JobQuestion, answer_job
from ..answers.recommendations import Renting
from ..answers.sources import Source, source_of
from ..errors import AgentError, InputError
from ..figures import cost_figure, detection_figure, predictions_figure
from ..files import write_whole
from ..instances import load_instances
from ..traces.labels import read_labels
from .comparison import compare
from .live import TrainerError, record_training
from .replay import SPEED, gpu_trace, replay_trace
from .report import write_report

LIVE_SECONDS = 60.0
_FAILURES = (AgentError, TrainerError, InputError, DetectorInputError, RegressorInputError)
_NOTHING: dict[str, Any] = {"true_period_s": None, "period_s": None, "verdict": "none", "confidence": 0.0, "found": False}
_PACKAGES = ("epochcast", "numpy", "scipy", "scikit-learn", "catboost", "torch")


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
    predictions: Sequence[Prediction] = ()
    recommendation: dict[str, Any] = {"cheapest": None, "fastest": None}
    try:
        replay, source = _replay(out, figures, progress)
        progress("predicting its epoch on every GPU")
        predictions, recommendation = _answer(source, figures)
    except _FAILURES as error:
        problems.append(f"GPU trace: {error}.")

    summary = {
        "schema": "epochcast.demo/v1",
        "headline": _headline(live, replay, recommendation),
        "problems": problems,
        "live": live,
        "replay": replay,
        "predictions": [prediction.to_json() for prediction in predictions],
        "recommendation": recommendation,
        "command": f"epochcast demo --out {out}",
        "started": started.isoformat(timespec="seconds"),
        "seconds": time.monotonic() - began,
        "machine": machine,
        "versions": {"python": platform.python_version(), **_versions()},
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
    found = detect(trace.time, trace.metrics())
    figures["live"] = detection_figure(trace, found, title="this machine, 10 Hz", true_starts=labels.epoch_starts)
    about = {key: training[key] for key in ("framework", "images", "losses", "accuracies")}
    summary = {**compare(trace, labels, found), **about, "load_average": os.getloadavg()[0]}
    return summary, f"{trace.gpu or platform.machine()}, {os.cpu_count()} CPUs"


def _replay(out: Path, figures: dict[str, Figure], progress: Callable[[str], object]) -> tuple[dict[str, Any], Source]:
    """Summary of the replayed GPU trace, and what predictions start from."""
    original, labels = gpu_trace()
    trace = replay_trace(original, labels, out, progress)
    progress("looking for its epochs")
    source = source_of(trace, "the replayed trace", load_catalog())
    found, gpu = source.found, source.profile.gpu
    assert found is not None  # of a trace
    title = f"{gpu}, {'simulated' if trace.simulated else 'recorded'}, 10 Hz"
    figures["replay"] = detection_figure(trace, found, title=title, true_starts=labels.epoch_starts)
    return {**compare(trace, labels, found), "simulated": trace.simulated, "gpu": gpu, "speed": SPEED}, source


def _answer(source: Source, figures: dict[str, Figure]) -> tuple[Sequence[Prediction], dict[str, Any]]:
    """The predictions for the job, and where to run it."""
    result = answer_job([source], Predictor.load(), load_instances(None, load_catalog())[0], JobQuestion(renting=Renting()))
    found, predictions = result.recommended, [answer.prediction for answer in result.answers]
    assert found is not None
    ranking = found.ranking
    assert ranking.cheapest is not None and ranking.fastest is not None  # nothing is asked that an instance could miss
    figures["predictions"] = predictions_figure(predictions, source.profile.gpu)
    if source.profile.epoch_s is not None:
        figures["cost"] = cost_figure(ranking.recommendations)
    return predictions, {
        "unit": source.profile.unit or "epoch",
        "verdict": found.verdict.to_json(),
        "cheapest": ranking.cheapest.to_json(),
        "fastest": ranking.fastest.to_json(),
    }


def _headline(live: dict[str, Any], replay: dict[str, Any], recommendation: dict[str, Any]) -> str:
    def part(name: str, result: dict[str, Any]) -> str:
        if result["true_period_s"] is None:
            return f"{name}: failed."
        if not result["found"]:
            return f"{name}: epochs missed."
        return f"{name}: epochs found, {result['error_percent']:.1f} % off."

    kind = "Simulated" if replay["simulated"] else "Recorded"
    said = [part("Live training on this CPU", live), part(f"{kind} GPU trace", replay)]
    if recommendation["cheapest"]:
        said.append(f"{recommendation['verdict']['text']}.")
    return " ".join(said)


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # torch is an extra
            continue
    return found
