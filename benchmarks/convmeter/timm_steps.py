"""Steps of timm's ConvNets on an RTX 3090 and a CPU, every form on the same rows; part `timm` of docs/convmeter.md.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.convmeter.timm_steps [--write]
"""

from collections.abc import Iterator

import numpy as np

from epochcast.analyzer.backends.convmeter.evaluation import Answers
from epochcast.analyzer.figures.scatter import Panel, step_figure

from .public_tables import PAGE, RECIPES, left_out, markdown_table, points_of, write_part

TABLES = {
    "3090 inference, nchw, PyTorch 2.4": "infer-amp-nchw-pt240-cu124-rtx3090",
    "3090 inference, nhwc, PyTorch 2.4": "infer-amp-nhwc-pt240-cu124-rtx3090",
    "3090 inference, nchw, PyTorch 2.1": "infer-amp-nchw-pt210-cu121-rtx3090",
    "3090 inference, nhwc, PyTorch 2.1": "infer-amp-nhwc-pt210-cu121-rtx3090",
    "3090 inference, nchw, PyTorch 1.13": "infer-amp-nchw-pt113-cu117-rtx3090",
    "3090 inference, nhwc, PyTorch 1.13": "infer-amp-nhwc-pt113-cu117-rtx3090",
    "3090 training, nchw, PyTorch 1.12": "train-amp-nchw-pt112-cu113-rtx3090",
    "3090 training, nhwc, PyTorch 1.12": "train-amp-nhwc-pt112-cu113-rtx3090",
    "i9-10940X inference, PyTorch 2.4": "infer-fp32-nchw-pt240-cpu-i9_10940x-dynamo",
    "i9-10940X inference, PyTorch 2.2": "infer-fp32-nchw-pt221-cpu-i9_10940x-dynamo",
}
"""RTX 3090 under mixed precision, CPU at fp32."""

MAIN = ("3090 inference, nchw, PyTorch 2.4", "3090 training, nchw, PyTorch 1.12", "i9-10940X inference, PyTorch 2.4")

NAMED = {
    "mobilenet_v2": "mobilenetv2_100",
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "resnext50_32x4d": "resnext50_32x4d",
    "wide_resnet50_2": "wide_resnet50_2",
    "vgg16": "vgg16",
    "regnet_y_400mf": "regnety_004",
    "vgg11": "vgg11",
}
"""Networks of Table 1 of the paper by their name in timm, which has no SqueezeNet."""


def main() -> None:
    """Print the tables; --write puts them into docs/convmeter.md."""
    write_part("timm", __doc__, lambda draw: list(lines(draw)))


def lines(draw: bool) -> Iterator[str]:
    """Markdown of the part; ``draw`` also writes its picture."""
    by_family = {table: _answers(name, "family", table in MAIN) for table, name in TABLES.items()}
    by_architecture = {table: _answers(TABLES[table], "architecture", True) for table in MAIN}
    yield from _compared("family left out", by_family)
    yield ""
    yield from _compared("architecture left out", by_architecture)
    yield ""
    main = {table: by_family[table] for table in MAIN}
    yield from _named(main)
    if draw:
        panels = [
            [
                Panel(f"{recipe}, {_phase(TABLES[table])}", one.measured, one.predicted, np.full(len(one.measured), table))
                for recipe in ("paper", "default")
                for one in [main[table][recipe]]
            ]
            for table in MAIN
        ]
        yield ""
        yield f"![Predicted against measured steps of timm's ConvNets]({PAGE.save_picture(step_figure(panels), 'timm')})"


def _phase(name: str) -> str:
    return "inference" if name.startswith("infer") else "step"


def _answers(name: str, protocol: str, with_boosting: bool) -> dict[str, Answers]:
    """What each form says of a table; not Paleo of a CPU, which has no data sheet, and boosting, which is slow, if asked."""
    points = points_of(f"benchmark-{name}.csv")
    passed_over = {"paleo"} if "cpu" in name else set()
    if not with_boosting:
        passed_over.add("boosting")
    return {recipe: left_out(points, _phase(name), recipe, protocol) for recipe in RECIPES if recipe not in passed_over}


def _compared(title: str, tables: dict[str, dict[str, Answers]]) -> Iterator[str]:
    rows = []
    for table, answers in tables.items():
        errors = {recipe: f"{one.figures.mape:.1f}" for recipe, one in answers.items()}
        best = answers["default"].figures
        rows.append(
            (table, str(best.n), *(errors.get(recipe, "") for recipe in RECIPES), f"{best.r2:.3f}", f"{best.nrmse:.3f}")
        )
    yield from markdown_table((f"MAPE %, {title}", "n", *RECIPES, "R2 of default", "NRMSE of default"), rows)


def _named(tables: dict[str, dict[str, Answers]]) -> Iterator[str]:
    """The paper's networks at 224 pixels, by the fits that saw none of their families."""
    header = ["network (family left out)"]
    for table in tables:
        header += [f"{table}: measured ms", "paper %", "default %"]
    rows = []
    for network, theirs in NAMED.items():
        row = [network]
        for answers in tables.values():
            points = answers["paper"].points
            here = ((points["network"] == theirs) & (points["image_size"] == 224)).to_numpy()
            row.append(f"{1e3 * answers['paper'].measured[here][0]:.1f}" if here.any() else "")
            for recipe in ("paper", "default"):
                one = answers[recipe]
                row.append(f"{100 * (one.predicted[here][0] / one.measured[here][0] - 1):+.0f}" if here.any() else "")
        rows.append(row)
    yield from markdown_table(header, rows)


if __name__ == "__main__":
    main()
