"""Steps on several devices of networks that were never fitted on, and whether the turning points are found.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.convmeter.scaling [--write]      (fills docs/convmeter.md, part scaling)

No public table of ConvNets on several nodes is at hand. What there is: torchvision's networks on 1 to 4 GPUs of one machine
under torch's DataParallel (one process that copies weights, images and gradients), and DistributedDataParallel with gloo
between two processes of one CPU (`data/convmeter_cpu/`).
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.adapters import read_any
from epochcast.analyzer.backends.convmeter.predictor import fit_predict
from epochcast.analyzer.backends.convmeter.scalability import Scaling
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.figures.scaling import ScalingCurve, scaling_figure

from .public_tables import PAGE, points_of, write_part

GLOO = Path(__file__).parents[2] / "data/convmeter_cpu/data_parallel.csv.gz"
FORMS = ("paper", "relative", "layers", "default")
PICTURE = ("A100-SXM4-40GB", "fp32")
NETWORKS = (
    "vgg16",
    "resnet18",
    "resnet50",
    "resnext50_32x4d",
    "densenet121",
    "mobilenet_v2",
    "shufflenet_v2_x1_0",
    "squeezenet1_0",
)

Seconds = NDArray[np.float64]


def main() -> None:
    """Print the tables; --write puts them and the picture into docs/convmeter.md."""
    write_part("scaling", __doc__, part)


def part(draw: bool) -> Sequence[str]:
    """Markdown of the part; ``draw`` also writes its picture."""
    points = points_of("torchvision_step_times.csv.gz")
    points = points[(points["precision"] != "fp64") & (points["step_seconds"] > 0)].reset_index(drop=True)
    answers = {form: left_out(points, form) for form in FORMS}
    lines = [*data_parallel(points, answers), "", *further(points), "", *turning(points, answers)]
    if draw:
        link = PAGE.save_picture(picture(points, answers["default"]), "scaling")
        lines += [
            "",
            f"Eight of them on the {' at '.join(PICTURE)}, each predicted by `default` without its own points (Fig. 8 of the "
            "paper):",
            "",
            f"![Throughput of eight networks on one to four GPUs, measured and predicted]({link})",
        ]
    if GLOO.exists():
        lines += ["", *processes(read_any(GLOO))]
    return lines


def left_out(points: pd.DataFrame, form: str, fitted_on: NDArray[np.bool_] | None = None) -> Seconds:
    """Seconds of each step, fitted on the other networks of its device and precision, shape (n,); NaN where that fails.

    Args:
        points: steps of any devices and precisions, index from 0.
        form: name.
        fitted_on: points that may be fitted on, shape (n,); all if None.
    """
    predicted = np.full(len(points), np.nan)
    known = np.ones(len(points), dtype=bool) if fitted_on is None else fitted_on
    for (device, precision, network), own in points.groupby(["device", "precision", "network"]):
        others = known & _own(points, device, precision) & (points["network"] != network).to_numpy()
        try:
            predicted[own.index] = fit_predict(points[others], own, "step", form)
        except InputError as error:
            print(f"{form}, {network} on {device}: {error}", file=sys.stderr)
    return predicted


def data_parallel(points: pd.DataFrame, answers: dict[str, Seconds]) -> list[str]:
    """Errors on one device and on several, by form, device and precision."""
    cells = points[["device", "precision"]].drop_duplicates().sort_values(["device", "precision"])
    names = [f"{device}, {precision}" for device, precision in cells.to_numpy()]
    lines = [
        f"torch DataParallel on 1 to 4 GPUs, {points['network'].nunique()} networks, 12 images of 224 pixels per GPU: step of "
        "a network that was left out, MAPE in per cent on 1 GPU / on 2, 3 and 4.",
        "",
        "| form | all | " + " | ".join(names) + " |",
        "|" + "---|" * (len(names) + 2),
    ]
    several = (points["devices"] > 1).to_numpy()
    for form, predicted in answers.items():
        errors = step_errors(points, predicted)
        own = [_own(points, device, precision) for device, precision in cells.to_numpy()]
        figures = [
            f"{mean_error(errors[cell & ~several])} / {mean_error(errors[cell & several])}"
            for cell in (np.ones_like(several), *own)
        ]
        lines.append(f"| {form} | " + " | ".join(figures) + " |")
    return lines


def further(points: pd.DataFrame) -> list[str]:
    """Errors on more devices than any network was fitted on."""
    lines = [
        "More GPUs than were measured, network left out as well, MAPE in per cent (in brackets: median of predicted over "
        "measured); all six cells:",
        "",
        "| form | fitted on 1 and 2, asked for 3 and 4 | fitted on 1, 2 and 3, asked for 4 |",
        "|---|---|---|",
    ]
    for form in FORMS:
        figures = []
        for fitted_on in ((1, 2), (1, 2, 3)):
            known = points["devices"].isin(fitted_on).to_numpy()
            predicted = left_out(points, form, known)
            ratio = np.nanmedian((predicted / points["step_seconds"].to_numpy())[~known])
            figures.append(f"{mean_error(step_errors(points, predicted)[~known])} ({ratio:.2f})")
        lines.append(f"| {form} | " + " | ".join(figures) + " |")
    return lines


def turning(points: pd.DataFrame, answers: dict[str, Seconds]) -> list[str]:
    """How often the turning point, and the number of GPUs with the highest throughput, is the measured one."""
    lines = [
        "Turning points (the number of GPUs beyond which none has 10 % more throughput per doubling; of "
        f"{points.groupby(['device', 'precision', 'network']).ngroups} networks on a GPU at a precision), as predicted for a "
        "network that was left out:",
        "",
        "| form | right | one count beside | number of the highest throughput right | throughput lost by taking the predicted "
        "one, mean |",
        "|---|---|---|---|---|",
    ]
    for form, predicted in answers.items():
        same, near, fastest, lost = [], [], [], []
        for _, own in points.assign(predicted=predicted).sort_values("devices").groupby(["device", "precision", "network"]):
            measured, guess = (_scaling(own, name) for name in ("step_seconds", "predicted"))
            counts = own["devices"].tolist()
            apart = abs(counts.index(_turn(measured)) - counts.index(_turn(guess)))
            same.append(apart == 0)
            near.append(apart == 1)
            fastest.append(measured.fastest == guess.fastest)
            rates = measured.images_per_second
            lost.append(1 - rates[counts.index(guess.fastest)] / rates.max())
        shares = [f"{100 * np.mean(one):.0f} %" for one in (same, near, fastest)]
        lines.append(f"| {form} | " + " | ".join(shares) + f" | {100 * np.mean(lost):.1f} % |")
    return lines


def picture(points: pd.DataFrame, predicted: Seconds) -> Figure:
    """Fig. 8 for eight networks on one GPU."""
    curves = []
    own = points.assign(predicted=predicted)[_own(points, *PICTURE)].sort_values("devices")
    for network in NETWORKS:
        rows = own[own["network"] == network]
        guess = _scaling(rows, "predicted")
        curves.append(
            ScalingCurve(
                network,
                rows["devices"].to_numpy(),
                guess.images_per_second,
                measured=_scaling(rows, "step_seconds").images_per_second,
                turning_point=guess.turning_point,
            )
        )
    return scaling_figure(curves, "GPUs")


def processes(points: pd.DataFrame) -> list[str]:
    """Errors on one and two gloo processes."""
    points = points[points["step_seconds"] > 0].reset_index(drop=True)
    counts = sorted(int(count) for count in points["devices"].unique())
    lines = [
        f"DistributedDataParallel with gloo between processes of one CPU ({points['device'].iloc[0]}), "
        f"{points['network'].nunique()} networks, {len(points)} points; they share the memory's bandwidth, and this is no "
        "cluster. Step of a network that was left out, MAPE in per cent:",
        "",
        "| form | " + " | ".join(f"{count} process{'es' * (count > 1)}" for count in counts) + " |",
        "|" + "---|" * (len(counts) + 1),
    ]
    for form in FORMS:
        errors = step_errors(points, left_out(points, form))
        lines.append(
            f"| {form} | " + " | ".join(mean_error(errors[(points["devices"] == count).to_numpy()]) for count in counts) + " |"
        )
    return lines


def _own(points: pd.DataFrame, device: str, precision: str) -> NDArray[np.bool_]:
    return ((points["device"] == device) & (points["precision"] == precision)).to_numpy()


def _scaling(rows: pd.DataFrame, seconds: str) -> Scaling:
    return Scaling(*(rows[name].to_numpy(dtype=float) for name in ("batch", "devices", seconds)))


def _turn(scaling: Scaling) -> float:
    """The turning point; the highest count where it lies beyond."""
    return float(scaling.devices[-1] if scaling.turning_point is None else scaling.turning_point)


def step_errors(points: pd.DataFrame, predicted: Seconds) -> Seconds:
    """Per cent, shape (n,)."""
    return 100 * np.abs(predicted / points["step_seconds"].to_numpy() - 1)


def mean_error(errors: Seconds) -> str:
    """MAPE, and how many were not answered if any."""
    answered = np.isfinite(errors)
    if not answered.any():
        return "-"
    return f"{errors[answered].mean():.1f}" + ("" if answered.all() else f" ({(~answered).sum()} without an answer)")


if __name__ == "__main__":
    main()
