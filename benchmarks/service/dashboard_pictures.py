"""Draw what the dashboards' panels show: ``python -m benchmarks.service.dashboard_pictures [--out docs/images/dashboards]``.

The numbers are a real Prometheus's answers to the panels' own queries; the Prometheus holds the history of the modelled fleet.
The drawings are Matplotlib's, laid out by the dashboards' grid: no Grafana had a part in them.
"""

import argparse
import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any, TextIO

import matplotlib as mpl
from matplotlib.figure import Figure

from .filled_prometheus import Prometheus, filled_prometheus
from .modelled_fleet import agent_series, analyzer_series, fleet, write_history
from .panel_drawings import BACKGROUND, KINDS, MUTED, PANEL, TEXT, Answer, Frame

ROOT = Path(__file__).resolve().parents[2]
STEP_S = 30.0
HISTORY_S = 3.5 * 3600
CHOICES = {"node": ".+", "instance": ".+", "gpu": "GPU-gpu-a-3", "training_job": "slurm-4711", "__rate_interval": "91s"}
SHOWN = {"gpu": "gpu-a 3 NVIDIA H100 80GB HBM3", "training_job": "Slurm job 4711", "node": "All", "instance": "All"}
COLUMN, ROW, GAP, HEAD = 66, 37, 8, 78  # pixels
DPI = 100


def main() -> None:
    """Fill a Prometheus, ask it every panel's queries, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "dashboards", help="folder of the pictures")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    now = time.time() // 60 * 60.0
    with tempfile.TemporaryDirectory() as folder, filled_prometheus(lambda file: write(file, now), Path(folder)) as prometheus:
        for path in sorted((ROOT / "dashboards" / "grafana").glob("*.json")):
            board = json.loads(path.read_text(encoding="utf-8"))
            figure = drawn(board, prometheus, now)
            figure.savefig(arguments.out / f"{path.stem}.png", dpi=DPI, facecolor=BACKGROUND)
            print(arguments.out / f"{path.stem}.png")


def write(file: TextIO, now: float) -> None:
    """Write the fleet's history."""
    jobs = fleet(now)
    moments = [now - STEP_S * step for step in range(round(HISTORY_S / STEP_S), -1, -1)]
    write_history(agent_series(jobs, now), moments, file)
    write_history(analyzer_series(jobs, now), moments, file)


def drawn(board: dict[str, Any], prometheus: Prometheus, now: float) -> Figure:
    """Return a dashboard's picture."""
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    width_px, height_px = 24 * COLUMN + 2 * GAP, height * ROW + HEAD + GAP
    with mpl.rc_context({"font.family": "DejaVu Sans", "font.size": 8, "text.color": TEXT, "axes.edgecolor": MUTED}):
        figure = Figure(figsize=(width_px / DPI, height_px / DPI))
        _head(figure, board, height_px)
        hours = _hours(board["time"]["from"])
        marks = _marks(board, prometheus, now, hours)
        for panel in board["panels"]:
            at = panel["gridPos"]
            left, top = GAP + at["x"] * COLUMN + GAP / 2, HEAD + at["y"] * ROW + GAP / 2
            box = (left, height_px - top - at["h"] * ROW + GAP, at["w"] * COLUMN - GAP, at["h"] * ROW - GAP)
            frame = Frame(figure, tuple(box), (width_px, height_px), PANEL)
            if panel["type"] == "row":
                frame.heading(panel["title"])
                continue
            frame.titled(panel["title"])
            answers = [asked(prometheus, target, now, hours) for target in panel["targets"]]
            KINDS[panel["type"]](frame, panel, answers, marks)
        return figure


def asked(prometheus: Prometheus, target: dict[str, Any], now: float, hours: float) -> Answer:
    """Return the answer to a panel's query, as Grafana would ask it."""
    expression = substituted(target["expr"])
    if target.get("instant"):
        series = prometheus.query(expression, now)
        points = [([now], [float(one["value"][1])]) for one in series]
    else:
        step = max(15.0, hours * 3600 / 360)
        series = prometheus.query_range(expression, now - hours * 3600, now, step)
        points = [([t for t, _ in one["values"]], [float(v) for _, v in one["values"]]) for one in series]
    legend = target.get("legendFormat", "")
    names = [re.sub(r"{{(\w+)}}", lambda found, one=one: one["metric"].get(found[1], ""), legend) for one in series]
    return Answer(target["refId"], [one["metric"] for one in series], names, points, (now - hours * 3600, now))


def substituted(expression: str) -> str:
    """Return a query with the choices in the place of its variables."""
    for name, value in CHOICES.items():
        expression = expression.replace(f"${name}", value)
    return expression


def _hours(since: str) -> float:
    number = re.fullmatch(r"now-(\d+)h", since)
    assert number, since
    # The modelled history is no longer than this.
    return min(float(number[1]), HISTORY_S / 3600)


def _marks(board: dict[str, Any], prometheus: Prometheus, now: float, hours: float) -> list[float]:
    marks: set[float] = set()
    for annotation in board.get("annotations", {}).get("list", []):
        for series in prometheus.query_range(substituted(annotation["expr"]), now - hours * 3600, now, STEP_S):
            marks |= {float(value) / 1000 for _, value in series["values"]}
    return sorted(marks)


def _head(figure: Figure, board: dict[str, Any], height_px: int) -> None:
    figure.text(0.008, 1 - 24 / height_px, board["title"], fontsize=14, weight="bold", va="center")
    links = "   ".join(f"↗ {link['title']}" for link in board["links"])
    figure.text(0.992, 1 - 24 / height_px, links, fontsize=9, color="#6e9fff", va="center", ha="right")
    chosen = [f"{one['label']}: {SHOWN.get(one['name'], 'Prometheus')}" for one in board["templating"]["list"]]
    figure.text(0.008, 1 - 56 / height_px, "    ".join(chosen), fontsize=9, color=MUTED, va="center")
    note = "drawn from the panels' queries; modelled fleet, not Grafana's own picture"
    figure.text(0.992, 1 - 56 / height_px, note, fontsize=8, color=MUTED, va="center", ha="right", style="italic")


if __name__ == "__main__":
    main()
