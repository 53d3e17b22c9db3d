"""What ``python -m lab.kernels`` shows of a trace that the agent recorded: occupancy as the hardware counted it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epochcast.analyzer.plain_json import plain
from epochcast.analyzer.tables import percent, seconds_text
from epochcast.analyzer.traces.trace import SCHEMA, read_trace
from lab.kernels.counted import OCCUPANCY, counted_timeline, utilisation_metric
from lab.kernels.timeline import BINS

_BEGINS = (b"PAR1", f'# {{"schema": "{SCHEMA}"'.encode())
"""A Parquet file, and a CSV file by this product."""


def is_trace(path: Path) -> bool:
    """Whether the file is a trace rather than a profile, by its first bytes; standard input and missing files are none."""
    try:
        with path.open("rb") as file:
            return file.read(max(map(len, _BEGINS))).startswith(_BEGINS)
    except OSError:
        return False


def counted_answer(path: Path, picture: Path | None) -> dict[str, Any]:
    """Means over the trace, under the names that a profile's have; ``picture`` is drawn over time.

    Raises:
        InputError: the trace is damaged or lacks a metric.
    """
    trace = read_trace(path)
    metric = utilisation_metric(trace, str(path))
    timeline = counted_timeline(trace, metric)
    counted = "simulated" if trace.simulated else "counted by the hardware"
    answer: dict[str, Any] = plain(
        {
            "format": f"trace of epochcast-agent, {counted}",
            "gpu": trace.gpu,
            "mean": float(timeline.occupancy[0]),
            "max": float(trace.frame[OCCUPANCY].max()),
            "kernels": [],
            "span_s": timeline.seconds,
            "utilisation": float(timeline.utilisation[0]),
            "utilisation_metric": metric,
            "occupancy_of_the_span": float(timeline.occupancy[0]),
        }
    )
    if picture is not None:
        from epochcast.analyzer.figures import save_figure
        from lab.figures.occupancy import occupancy_over_time_figure

        means = f"{metric} {percent(answer['utilisation'])}, occupancy {percent(answer['mean'])}"
        title = f"{trace.gpu or 'GPU'}, {seconds_text(timeline.seconds)}: {means}"
        save_figure(occupancy_over_time_figure({title: counted_timeline(trace, metric, BINS)}, counted), picture)
    return answer


def counted_sentences(answer: Mapping[str, Any]) -> str:
    """The answer for people."""
    return (
        f"{answer['gpu'] or 'GPU'}: {seconds_text(answer['span_s'])} ({answer['format']})\n"
        f"a kernel ran {percent(answer['utilisation'])} of the time ({answer['utilisation_metric']});"
        f" warp slots were {percent(answer['mean'])} full on average ({OCCUPANCY}), {percent(answer['max'])} at most"
    )
