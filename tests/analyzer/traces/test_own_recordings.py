"""Our own recordings under ``data/``: read as any user's, detected, and scored against their true marks."""

from pathlib import Path

import pytest

from epochcast.analyzer.traces.labels import read_labels
from epochcast.analyzer.traces.trace import read_trace
from epochcast.detector import detect
from lab.corpus.labelled_traces import labelled_traces
from lab.evaluate.detection import TOLERANCE, TraceScore, evaluate_trace, period_error, score_trace


@pytest.mark.parametrize("name", ["torch_1", "numpy_1", "numpy_2", "numpy_3"])
def test_epochs_of_the_demos_training_are_found_on_a_quiet_machine(root: Path, name: str) -> None:
    recordings = {name: (trace, labels) for name, trace, labels in labelled_traces(root / "data" / "cpu_demo")}
    trace, labels = recordings[name]
    found = detect(trace.time, trace.metrics())
    score = score_trace(name, found, labels, trace.time, trace.metrics())
    assert found.verdict == "epochs"
    assert found.clock == "work"
    assert score.error is not None
    assert score.error < 100 * TOLERANCE


def test_amid_bursts_of_other_writes_it_abstains_or_is_right(root: Path) -> None:
    recordings = {name: (trace, labels) for name, trace, labels in labelled_traces(root / "data" / "cpu_demo")}
    trace, labels = recordings["numpy_4"]
    found = detect(trace.time, trace.metrics())
    if found.period_s is not None:
        score = score_trace("numpy_4", found, labels, trace.time, trace.metrics())
        assert period_error(score.found_period or 0, score.true_period or 0) < 100 * TOLERANCE


@pytest.mark.parametrize("name", ["beside_cnn_line", "beside_lstm_line"])
def test_epochs_show_in_what_the_job_writes_beside_busy_loops(root: Path, name: str) -> None:
    assert _score(root, name).right


def test_a_line_at_every_step_is_no_epoch(root: Path) -> None:
    assert _score(root, "beside_mlp_steps").verdict == "none"


def _score(root: Path, name: str) -> TraceScore:
    path = root / "data" / "process_training" / f"{name}.csv"
    trace = read_trace(path)
    return evaluate_trace(name, trace.time, trace.metrics(), read_labels(path.with_suffix(".json")))
