"""What a detection's figure shows: epochs, scores and details, legible for few and many epochs, short and long traces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from epochcast.analyzer.charts import detection_figure, draw_series
from epochcast.analyzer.traces.trace import Trace
from epochcast.detector import Detection, Epoch, JobEpochs, Stretch, detect


def saw(epochs: int, period_s: float) -> Trace:
    """A trace whose two metrics rise over each epoch and fall at its end."""
    time = 1000.0 + 0.1 * np.arange(int(epochs * period_s * 10))
    rise = (time - 1000.0) % period_s / period_s
    return Trace(pd.DataFrame({"time": time, "dram_active": rise, "power": 30 + 40 * rise}), gpu="Tesla T4", simulated=True)


def epochs_of(count: int, period_s: float, confidence: float = 0.9, start: float = 1000.0) -> tuple[Epoch, ...]:
    return tuple(Epoch(start + k * period_s, start + (k + 1) * period_s, confidence) for k in range(count))


def found(count: int, period_s: float, **changes: object) -> Detection:
    spans = epochs_of(count, period_s)
    answer = Detection("epochs", period_s, None, spans, 0.9, "track", "wall", jobs=(JobEpochs(period_s, spans, 0.9),))
    return replace(answer, **changes)  # type: ignore[arg-type]


def labels(figure: Figure) -> list[str]:
    return [axes.get_ylabel().replace("\n", " ") for axes in figure.axes]


def titles(figure: Figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


def lines_at_boundaries(figure: Figure, panel: str) -> int:
    axes = figure.axes[labels(figure).index(panel)]
    return sum(len(lines.get_paths()) for lines in axes.collections if isinstance(lines, LineCollection))


def test_every_epoch_is_a_bar_and_every_boundary_a_line_in_every_metric() -> None:
    figure = detection_figure(saw(8, 10), found(8, 10), title="T4")
    (bars,) = figure.axes[0].collections
    assert len(bars.get_paths()) == 8
    assert lines_at_boundaries(figure, "dram active") == lines_at_boundaries(figure, "power") == 9
    assert figure.get_suptitle() == "T4\n8 epochs of 10.00 s, confidence 0.90 (method track, wall clock)"


def test_the_shade_tells_the_confidence_by_lightness() -> None:
    spans = tuple(replace(epoch, confidence=c) for epoch, c in zip(epochs_of(4, 10), (0.1, 0.5, 0.7, 0.95), strict=True))
    figure = detection_figure(saw(4, 10), found(4, 10, epochs=spans, jobs=(JobEpochs(10, spans, 0.9),)), title="T4")
    (bars,) = figure.axes[0].collections
    lightness = bars.get_facecolor()[:, :3] @ [0.299, 0.587, 0.114]
    assert (np.diff(lightness) < -0.1).all()
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.10", "0.50", "0.70", "0.95"]


def test_many_epochs_are_shown_in_a_close_up_instead_of_a_thicket() -> None:
    figure = detection_figure(saw(300, 8), found(300, 8), title="T4", true_starts=tuple(1000 + 8 * np.arange(300)))
    assert lines_at_boundaries(figure, "power") == 0
    assert titles(figure) == ["close-up: dram_active"]
    low, high = figure.axes[-1].get_xlim()
    assert (high - low) * 60 == pytest.approx(6 * 8)  # minutes: the trace has 40 of them
    assert not figure.axes[0].texts


def test_a_long_series_keeps_its_extremes_and_its_mean() -> None:
    axes = Figure().subplots()
    values = np.tile([0.0, 1.0], 50_000)
    values[70_001] = 9.0
    draw_series(axes, np.arange(100_000.0), values, color="k")
    (line,), (band,) = axes.lines, axes.collections
    mean, outline = line.get_ydata(), band.get_paths()[0].vertices[:, 1]
    assert mean.size < 3000
    assert outline.min() == 0.0 and outline.max() == 9.0
    assert np.median(mean) == pytest.approx(0.5, abs=0.02)


def test_no_line_crosses_a_hole() -> None:
    axes = Figure().subplots()
    time = np.concatenate([np.arange(100.0), 500 + np.arange(100.0)])
    draw_series(axes, time, np.ones(200), color="k")
    assert np.isnan(axes.lines[0].get_ydata()).sum() == 1


def test_each_pass_of_the_papers_recipe_has_a_panel_with_its_score_before_smoothing() -> None:
    trace = saw(10, 30)
    answer = detect(trace.time, trace.metrics(), method="paper", passes=2)
    figure = detection_figure(trace, answer, title="T4")
    drawn = [axes for axes in figure.axes if axes.get_ylabel().startswith("score")]
    assert [axes.get_ylabel() for axes in drawn] == ["score,\npass 1", "score,\npass 2"]
    assert [len(axes.lines) for axes in drawn] == [2, 2]


def test_scores_of_another_length_are_no_panel_over_time() -> None:
    trace = saw(5, 10)
    scores = {
        "similarity": np.zeros(trace.time.size),
        "candidate_period": np.array([10.0]),
        "candidate_quality": np.array([0.9]),
    }
    figure = detection_figure(trace, found(5, 10, scores=scores), title="T4")
    assert labels(figure)[-2] == "similarity"
    assert titles(figure) == ["candidate periods: evidence [nats], answer dashed"]


def test_two_jobs_have_a_row_each() -> None:
    jobs = tuple(JobEpochs(period, epochs_of(count, period), 0.8) for count, period in ((12, 10.0), (4, 30.0)))
    figure = detection_figure(saw(12, 10), found(12, 10, jobs=jobs), title="T4")
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["job 1", "job 2"]
    assert [len(bars.get_paths()) for bars in figure.axes[0].collections] == [12, 4]
    assert figure.get_suptitle().endswith("second job: 4 of 30.00 s")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Detection("none", None, None, (), 0.31, "paper", "wall"), "no answer, confidence 0.31"),
        (
            Detection("none", None, None, (), 0.31, "track", "wall", reason="no_cycle"),
            "no cycle stands out.\n(method track, wall clock, confidence of the best candidate 0.31)",
        ),
        (Detection("steps", 2.0, None, (), 0.8, "track", "wall", step_s=2.0), "steps of 2.00 s, confidence 0.80"),
    ],
)
def test_no_epochs_no_bars(answer: Detection, says: str) -> None:
    figure = detection_figure(saw(20, 10), answer, title="T4")
    assert says in figure.get_suptitle()
    assert labels(figure)[:2] == ["dram active", "power"]


CHANGES = (Stretch(1000.0, 1100.0, 10.0, 0.9, 10), Stretch(1120.0, 1200.0, 20.0, 0.7, 4))


def test_a_trace_without_one_period_shows_its_stretches() -> None:
    answer = Detection("none", None, None, (), 0.7, "track", "wall", reason="period_changes", stretches=CHANGES)
    figure = detection_figure(saw(20, 10), answer, title="T4")
    assert figure.get_suptitle() == "T4\nno single epoch length: the period changes.\n(method track, wall clock)"
    ribbon, metric = figure.axes[:2]
    assert [label.get_text() for label in ribbon.get_yticklabels()] == ["stretches"]
    assert [text.get_text() for text in ribbon.texts] == ["10.0\N{NO-BREAK SPACE}s", "20.0\N{NO-BREAK SPACE}s"]
    assert [line.get_xdata()[0] for line in metric.lines if line.get_transform() == metric.get_xaxis_transform()] == [100, 120]
