"""Phases of 17 torchvision networks on one thread of a CPU; part `cpu_phases` of docs/convmeter.md.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.convmeter.cpu_phases [--write]
"""

from collections.abc import Iterator

from epochcast.analyzer.backends.convmeter.evaluation import figures
from epochcast.analyzer.backends.convmeter.points import PHASES
from epochcast.analyzer.figures.scatter import Panel, step_figure

from .public_tables import PAGE, RECIPES, left_out, markdown_table, points_of, write_part

TRAINING = ("forward", "backward", "update")


def main() -> None:
    """Print the tables; --write puts them into docs/convmeter.md."""
    write_part("cpu_phases", __doc__, lambda draw: list(lines(draw)))


def lines(draw: bool) -> Iterator[str]:
    """Markdown of the part; ``draw`` also writes its picture."""
    points = points_of("cpu_phases.csv")
    recipes = [recipe for recipe in RECIPES if recipe != "paleo"]  # which needs a data sheet, and is for GPUs
    answers = {phase: {recipe: left_out(points, phase, recipe, "model") for recipe in recipes} for phase in PHASES}
    told = {phase: {recipe: one.figures for recipe, one in by.items()} for phase, by in answers.items()}
    told["sum of the three"] = {
        recipe: figures(step.measured, sum(answers[phase][recipe].predicted for phase in TRAINING))
        for recipe, step in answers["step"].items()
    }
    yield from markdown_table(
        ("network left out: MAPE % (R2)", "n", *recipes),
        [
            (phase, str(by["default"].n), *(f"{by[recipe].mape:.1f} ({by[recipe].r2:.2f})" for recipe in recipes))
            for phase, by in told.items()
        ],
    )
    yield ""
    steps = {recipe: answers["step"][recipe].by("network") for recipe in ("paper", "default")}
    header = (
        "step of a network left out",
        "n",
        *(f"{recipe}: {name}" for recipe in steps for name in ("RMSE s", "NRMSE", "MAPE %")),
    )
    yield from markdown_table(
        header,
        [
            (
                network,
                str(one.n),
                *(
                    text
                    for by in steps.values()
                    for text in (f"{by[network].rmse:.3f}", f"{by[network].nrmse:.2f}", f"{by[network].mape:.1f}")
                ),
            )
            for network, one in steps["default"].items()
        ],
    )
    if draw:
        panels = [
            [
                Panel(f"{recipe}, {phase}", one.measured, one.predicted, one.points["precision"].to_numpy(dtype=str))
                for recipe in ("paper", "default")
                for one in [answers[phase][recipe]]
            ]
            for phase in (*TRAINING, "step")
        ]
        yield ""
        yield f"![Predicted against measured phases on a CPU]({PAGE.save_picture(step_figure(panels), 'cpu_phases')})"


if __name__ == "__main__":
    main()
