"""Steps on several devices of networks that were never fitted on, and whether the turning points are right; part `scaling`.

Run: python -m lab.speed.convmeter.scaling [--write]

No public table of ConvNets on several nodes is at hand. What there is: torchvision's networks on 1 to 4 GPUs of one machine
under torch's DataParallel (one process that copies weights, images and gradients), and DistributedDataParallel with gloo
between two processes of one CPU (`data/convmeter_cpu/`).
"""

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from epochcast.analyzer.backends.convmeter.scalability import ScalingCurve
from epochcast.analyzer.charts import chart_figure
from epochcast.analyzer.plugins.chart import Chart, Line
from lab.convmeter_tables import read_any
from lab.evaluate.convmeter_protocols import Answers, Figures, cell_names
from lab.speed.convmeter.public_tables import FEW, OWN, left_out, points_of
from lab.speed.page import CONVMETER, markdown_table, options, publish

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


def lines(draw: bool) -> Iterator[str]:
    """The tables; ``draw`` also writes the picture."""
    points = points_of("torchvision_step_times.csv.gz")
    points = points[points["precision"] != "fp64"]
    answers = {form: left_out(points, "step", form) for form in FEW}
    yield from data_parallel(answers)
    yield ""
    yield from further(points)
    yield ""
    yield from turning(answers)
    if draw:
        yield ""
        yield (
            f"Eight of them on the {' at '.join(PICTURE)}, each predicted by `default` without its own points (Fig. 8 of the "
            "paper):"
        )
        yield ""
        link = CONVMETER.save_picture(picture(answers["default"]), "scaling")
        yield f"![Throughput of eight networks on one to four GPUs, measured and predicted]({link})"
    yield ""
    yield from processes(read_any(OWN / "data_parallel.csv.gz"))


def data_parallel(answers: Mapping[str, Answers]) -> Iterator[str]:
    """Errors on one device and on several, by form, device and precision."""
    cells, networks = list(by_cell(answers["default"])), answers["default"].points["network"].nunique()
    yield (
        f"torch DataParallel on 1 to 4 GPUs, {networks} networks, 12 images of 224 pixels per "
        "GPU: step of a network that was left out, MAPE in percent on 1 GPU / on 2, 3 and 4."
    )
    yield ""
    rows = []
    for form, answer in answers.items():
        one = (answer.points["devices"] == 1).to_numpy()
        alone, several = ({"all": part.figures, **by_cell(part)} for part in (answer.only(one), answer.only(~one)))
        rows.append((form, *(f"{alone[cell].mape:.1f} / {several[cell].mape:.1f}" for cell in ("all", *cells))))
    yield from markdown_table(("form", "all", *cells), rows)


def by_cell(answer: Answers) -> Mapping[str, Figures]:
    """Errors on each device at each precision."""
    return answer.by(cell_names(answer.points))


def further(points: pd.DataFrame) -> Iterator[str]:
    """Errors on more devices than any network was fitted on."""
    yield (
        "More GPUs than were measured, network left out as well, MAPE in percent (in brackets: median of predicted over "
        "measured); all six cells:"
    )
    yield ""
    rows = []
    for form in FEW:
        row = [form]
        for most in (2, 3):
            answer = left_out(
                points, "step", form, seen=partial(lambda most, train: (train["devices"] <= most).to_numpy(), most)
            )
            more = answer.only((answer.points["devices"] > most).to_numpy())
            row.append(f"{more.figures.mape:.1f} ({np.nanmedian(more.predicted / more.measured):.2f})")
        rows.append(row)
    yield from markdown_table(("form", "fitted on 1 and 2, predicting 3 and 4", "fitted on 1, 2 and 3, predicting 4"), rows)


def turning(answers: Mapping[str, Answers]) -> Iterator[str]:
    """How often the turning point, and the number of GPUs with the highest throughput, is the measured one."""
    rows = []
    for form, answer in answers.items():
        points = answer.points.assign(measured=answer.measured, predicted=answer.predicted).sort_values("devices")
        figures = []
        for _, own in points.groupby(["device", "precision", "network"]):
            measured, predicted = (_scaling(own, name) for name in ("measured", "predicted"))
            counts, rates = own["devices"].tolist(), measured.images_per_second
            apart = abs(counts.index(_turn(measured)) - counts.index(_turn(predicted)))
            lost = 1 - rates[counts.index(predicted.fastest)] / rates.max()
            figures.append((apart == 0, apart == 1, measured.fastest == predicted.fastest, lost))
        *shares, lost = 100 * np.mean(figures, axis=0)
        rows.append((form, *(f"{share:.0f} %" for share in shares), f"{lost:.1f} %"))
    yield (
        "Turning points (the number of GPUs beyond which none has 10 % more throughput per doubling; of "
        f"{len(figures)} networks on a GPU at a precision), as predicted for a network that was left out:"
    )
    yield ""
    yield from markdown_table(
        (
            "form",
            "right",
            "off by one count",
            "number of the highest throughput right",
            "throughput lost by taking the predicted one, mean",
        ),
        rows,
    )


def picture(answer: Answers) -> Figure:
    """Fig. 8 for eight networks on one GPU."""
    points = answer.points.assign(measured=answer.measured, predicted=answer.predicted).sort_values("devices")
    own = points[(points["device"] == PICTURE[0]) & (points["precision"] == PICTURE[1])].groupby("network")
    panels = {}
    for network in NETWORKS:
        rows = own.get_group(network)
        scalings = {name: _scaling(rows, name) for name in ("predicted", "measured")}
        counts = rows["devices"].tolist()
        panels[network] = [Line(name, counts, scaling.images_per_second.tolist()) for name, scaling in scalings.items()]
        if (turning := scalings["predicted"].turning_point) is not None:
            panels[network].append(Line("more do not pay", [turning]))
    return chart_figure(Chart(panels, "GPUs", "images per second"))


def processes(points: pd.DataFrame) -> Iterator[str]:
    """Errors on one and two gloo processes."""
    answers = {form: left_out(points, "step", form) for form in FEW}
    asked = answers["default"].points
    yield (
        f"DistributedDataParallel with gloo between processes of one CPU ({asked['device'].iloc[0]}), "
        f"{asked['network'].nunique()} networks, {len(asked)} points; they share the memory's bandwidth, and this is no "
        "cluster. Step of a network that was left out, MAPE in percent:"
    )
    yield ""
    rows = [(form, *(f"{one.mape:.1f}" for one in answer.by("devices").values())) for form, answer in answers.items()]
    yield from markdown_table(("form", *(f"processes: {count}" for count in answers["default"].by("devices"))), rows)


def _scaling(rows: pd.DataFrame, seconds: str) -> ScalingCurve:
    return ScalingCurve(*(rows[name].to_numpy(dtype=float) for name in ("batch", "devices", seconds)))


def _turn(scaling: ScalingCurve) -> float:
    """The turning point; the highest count where it lies beyond."""
    return float(scaling.devices[-1] if scaling.turning_point is None else scaling.turning_point)


if __name__ == "__main__":
    write = options(__doc__).parse_args().write
    publish(CONVMETER, "scaling", lines(write), write=write)
