"""Our own measurements on one thread of a CPU: phases of networks that were left out; part `cpu` of docs/convmeter.md.

Run: python -m benchmarks.convmeter.cpu [--write]

The points are `data/convmeter_cpu/points.csv.gz`, whole networks only; `blocks.py` is about the blocks. Some were measured a
second time (`repeated.csv.gz`): no prediction can be better than these agree.
"""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.convmeter.evaluation import Answers
from epochcast.analyzer.backends.convmeter.forms import BASELINES, FORMS
from epochcast.analyzer.backends.convmeter.points import KEYS, PHASES, TIMES, read_points
from epochcast.analyzer.figures.scatter import Panel, step_figure
from epochcast.regressor.scoring import absolute_percentage_errors

from .public_tables import PAGE, left_out, markdown_table, write_part

DATA = Path(__file__).parents[2] / "data" / "convmeter_cpu"


def main() -> None:
    """Print the tables; --write puts them into docs/convmeter.md."""
    write_part("cpu", __doc__, lambda draw: list(lines(draw)))


def lines(draw: bool) -> Iterator[str]:
    """Markdown of the part; ``draw`` also writes its picture."""
    points = networks_of("points.csv.gz")
    yield (
        f"{points['device'].iloc[0]}: {len(points)} points of {points['network'].nunique()} networks in "
        f"{points['family'].nunique()} families, images of {listed(points['image_size'])} pixels, "
        f"batches of {listed(points['batch'])}."
    )
    again = points.merge(networks_of("repeated.csv.gz"), on=list(KEYS), suffixes=("", "_again"))
    differences = [
        absolute_percentage_errors(again[name].to_numpy(), again[f"{name}_again"].to_numpy()).mean() for name in TIMES
    ]
    yield ""
    yield (
        f"{len(again)} of them measured again differ by "
        f"{', '.join(f'{one:.1f} % ({phase})' for one, phase in zip(differences, PHASES, strict=True))} in the mean."
    )
    answers = {}
    for protocol, left in (("model", "network"), ("family", "family")):
        forms = [*FORMS, *(form for form in BASELINES if form != "paleo")]  # which needs a GPU's data sheet
        answers[protocol] = {form: {phase: left_out(points, phase, form, protocol) for phase in PHASES} for form in forms}
        yield ""
        counts = [f"{phase} ({one.figures.n})" for phase, one in answers[protocol]["default"].items()]
        yield from markdown_table(
            (f"{left} left out: MAPE % (R2)", *counts),
            [
                (form, *(f"{one.figures.mape:.1f} ({one.figures.r2:.2f})" for one in by.values()))
                for form, by in answers[protocol].items()
            ],
        )
    chosen = {form: answers["model"][form]["step"] for form in ("paper", "default")}
    for column, title in (("batch", "batch"), ("image_size", "image size, pixels"), ("network", "network")):
        yield ""
        yield from by_table(chosen, column, title)
    if draw:
        panels = [
            [
                Panel(f"{form}, {phase}", one.measured, one.predicted, one.points["precision"].to_numpy(dtype=str))
                for form in ("paper", "default")
                for one in [answers["model"][form][phase]]
            ]
            for phase in ("inference", "step")
        ]
        yield ""
        yield f"![Predicted against measured inference and steps on a CPU]({PAGE.save_picture(step_figure(panels), 'cpu')})"


def networks_of(name: str) -> pd.DataFrame:
    """Points of whole networks in one of the tables."""
    points = read_points(DATA / name)
    return points[points["block"] == ""].reset_index(drop=True)


def by_table(answers: dict[str, Answers], column: str, title: str) -> list[str]:
    """Errors of the forms' steps by the values of a column, each network left out."""
    by = {form: one.by(column) for form, one in answers.items()}
    header = (f"step by {title}", "n", *(f"{form}: {name}" for form in by for name in ("RMSE s", "NRMSE", "MAPE %")))
    rows = [
        (value, str(figures.n), *(text for one in by.values() for text in cells(one[value])))
        for value, figures in by["default"].items()
    ]
    return markdown_table(header, rows)


def cells(figures) -> tuple[str, str, str]:
    """RMSE, NRMSE and MAPE as the paper's tables have them."""
    return f"{figures.rmse:.3f}", f"{figures.nrmse:.2f}", f"{figures.mape:.1f}"


def listed(values: pd.Series) -> str:
    """Numbers that occur, in order."""
    return ", ".join(f"{value:g}" for value in sorted(values.unique()))


if __name__ == "__main__":
    main()
