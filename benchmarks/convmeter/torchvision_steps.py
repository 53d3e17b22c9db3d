"""Steps of 32 torchvision networks on three GPUs, by precision; part `torchvision` of docs/convmeter.md.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.convmeter.torchvision_steps [--write]
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.convmeter.evaluation import Answers, cell_names

from .public_tables import RECIPES, left_out, markdown_table, points_of, write_part

PHASES = ("step", "inference")
PRECISIONS = ("fp16", "fp32")
PROTOCOLS = {"family": "family left out", "model": "network left out"}


def main() -> None:
    """Print the tables; --write puts them into docs/convmeter.md."""
    write_part("torchvision", __doc__, lambda _: list(lines()))


def lines() -> Iterator[str]:
    """Markdown of the part."""
    points = points_of("torchvision_step_times.csv.gz")
    points = points[(points["devices"] == 1) & points["precision"].isin(PRECISIONS)]
    default = {}
    for protocol, title in PROTOCOLS.items():
        for phase in PHASES:
            answers = {recipe: left_out(points, phase, recipe, protocol) for recipe in RECIPES}
            default[protocol, phase] = answers["default"]
            cells = {recipe: one.by(cell_names(one.points)) for recipe, one in answers.items()}
            rows = [
                (cell, str(one.n), *(f"{cells[recipe][cell].mape:.1f}" for recipe in RECIPES), f"{one.r2:.3f}")
                for cell, one in cells["default"].items()
            ]
            yield from markdown_table((f"{phase}, {title}: MAPE %", "n", *RECIPES, "R2 of default"), rows)
            yield ""
            yield _worse(cells["default"], cells["paper"])
            yield ""
    for protocol, title in PROTOCOLS.items():
        yield from _precision_change(title, {phase: default[protocol, phase] for phase in PHASES})
        yield ""


def _worse(default: dict[str, object], paper: dict[str, object]) -> str:
    by = {cell: default[cell].mape / paper[cell].mape - 1 for cell in default}
    worse = [f"{cell} by {100 * more:.0f} %" for cell, more in by.items() if more > 0]
    return f"`default` is worse than `paper` in {len(worse)} of {len(by)} cells" + (f": {', '.join(worse)}." if worse else ".")


def _precision_change(title: str, answers: dict[str, Answers]) -> Iterator[str]:
    """How many times fp32 takes of fp16, measured against predicted for networks that neither fit saw."""
    rows = []
    for phase, answer in answers.items():
        both = answer.points.assign(measured=answer.measured, predicted=answer.predicted)
        wide = both.pivot_table(["measured", "predicted"], index=["device", "network"], columns="precision").dropna()
        ratio = pd.DataFrame({name: wide[name]["fp32"] / wide[name]["fp16"] for name in ("measured", "predicted")})
        for device, own in ratio.groupby("device"):
            ours, theirs = own["predicted"], own["measured"]
            rows.append(
                (
                    f"{device}, {phase}",
                    str(len(own)),
                    f"{theirs.mean():.2f} ({theirs.min():.2f} to {theirs.max():.2f})",
                    f"{ours.mean():.2f}",
                    f"{100 * np.abs(ours / theirs - 1).mean():.1f}",
                    f"{100 * np.abs(1 / theirs - 1).mean():.1f}",
                    f"{100 * ((ours > 1) == (theirs > 1)).mean():.0f} %",
                )
            )
    header = (
        f"fp32 over fp16 time, {title}",
        "n",
        "measured",
        "predicted",
        "MAPE %",
        "if it changed nothing",
        "faster one right",
    )
    yield from markdown_table(header, rows)


if __name__ == "__main__":
    main()
