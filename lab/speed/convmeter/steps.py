"""Steps of ConvNets that no fit saw, all forms on the same rows; parts `timm`, `torchvision`, `cpu_phases` and `cpu`.

Run: python -m lab.speed.convmeter.steps [NAME]… [--write]

`timm`: an RTX 3090 under mixed precision and a CPU. `torchvision`: 32 networks on three GPUs by precision. `cpu_phases`: 17
networks on one thread of a CPU. `cpu`: our own (`data/convmeter_cpu`), whole networks only; some were measured a second
time: no prediction can be better than these agree.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from epochcast.analyzer.backends.convmeter.metrics import KEYS, PHASES, TIMES
from epochcast.regressor.scoring import absolute_percentage_errors
from lab.evaluate.convmeter_protocols import Answers, Figures, cell_names, figures
from lab.figures.scatter import Pairs, step_figure
from lab.rivals.convmeter import FORMS
from lab.speed.convmeter.public_tables import BOTH, ON_A_CPU, errors_by, left_out, points_of, whole_networks
from lab.speed.page import CONVMETER, markdown_table, part_options, publish_parts

TIMM = {
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
TIMM_MAIN = ("3090 inference, nchw, PyTorch 2.4", "3090 training, nchw, PyTorch 1.12", "i9-10940X inference, PyTorch 2.4")
TIMM_NAMES = {
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

LEFT_OUT = {"family": "family left out", "architecture": "architecture left out", "model": "network left out"}


def timm(draw: bool) -> Iterator[str]:
    """All tables by family, the main ones by architecture too, and the paper's networks at 224 pixels."""
    for protocol, tables in (("family", TIMM), ("architecture", TIMM_MAIN)):
        rows = {table: _timm_answers(table, protocol) for table in tables}
        if protocol == "family":
            main = {table: rows[table] for table in TIMM_MAIN}
        yield from compared(protocol, {table: _figures(answers) for table, answers in rows.items()})
        yield ""
    header, networks = ["network (family left out)"], []
    for table in main:
        header += [f"{table}: measured ms", "paper %", "default %"]
    for network, theirs in TIMM_NAMES.items():
        row = [network]
        for answers in main.values():
            points = answers["paper"].points
            (place,) = np.flatnonzero((points["network"] == theirs) & (points["image_size"] == 224))
            row.append(f"{1e3 * answers['paper'].measured[place]:.1f}")
            row += [f"{100 * (answers[form].predicted[place] / answers[form].measured[place] - 1):+.0f}" for form in BOTH]
        networks.append(row)
    yield from markdown_table(header, networks)
    if draw:
        yield from picture("timm", "steps of timm's ConvNets", {table: (_timm_phase(table), main[table]) for table in main})


def _timm_phase(table: str) -> str:
    return "step" if "training" in table else "inference"


def _timm_answers(table: str, protocol: str) -> dict[str, Answers]:
    """By form."""
    points = points_of(f"benchmark-{TIMM[table]}.csv")
    return {form: left_out(points, _timm_phase(table), form, protocol) for form in (ON_A_CPU if "i9" in table else FORMS)}


def torchvision(draw: bool) -> Iterator[str]:
    """By GPU and precision."""
    points = points_of("torchvision_step_times.csv.gz")
    points = points[(points["devices"] == 1) & (points["precision"] != "fp64")]
    for protocol in ("family", "model"):
        answers = {phase: {form: left_out(points, phase, form, protocol) for form in FORMS} for phase in ("step", "inference")}
        by_cell = {phase: {form: one.by(cell_names(one.points)) for form, one in by.items()} for phase, by in answers.items()}
        rows = {
            f"{phase}, {cell}": {form: cells[cell] for form, cells in by.items()}
            for phase, by in by_cell.items()
            for cell in by["default"]
        }
        yield from compared(protocol, rows)
        yield ""
        worse = {row: by["default"].mape / by["paper"].mape - 1 for row, by in rows.items()}
        named = ", ".join(f"{row} by {100 * more:.0f} %" for row, more in worse.items() if more > 0)
        yield f"Of {len(worse)} cells `default` is worse than `paper` in: {named or 'none'}."
        yield ""


def cpu_phases(draw: bool) -> Iterator[str]:
    """Phases, their sum, and steps by network."""
    points = points_of("cpu_phases.csv")
    answers = {phase: {form: left_out(points, phase, form) for form in ON_A_CPU} for phase in PHASES}
    summed = {
        form: figures(
            step.measured, np.asarray(sum(answers[phase][form].predicted for phase in ("forward", "backward", "update")))
        )
        for form, step in answers["step"].items()
    }
    yield from compared("model", {**{phase: _figures(by) for phase, by in answers.items()}, "sum of the three": summed})
    yield ""
    yield from errors_by({form: answers["step"][form] for form in BOTH}, "network", "step of a network left out")
    if draw:
        chosen = {phase: (phase, answers[phase]) for phase in ("forward", "backward", "update", "step")}
        yield from picture("cpu_phases", "phases on a CPU", chosen)


def cpu(draw: bool) -> Iterator[str]:
    """How far two measurements agree, phases by protocol, and steps by batch, size and network."""
    points = whole_networks()
    listed = {name: ", ".join(f"{value:g}" for value in sorted(points[name].unique())) for name in ("image_size", "batch")}
    yield (
        f"{points['device'].iloc[0]}: {len(points)} points of {points['network'].nunique()} networks in "
        f"{points['family'].nunique()} families, images of {listed['image_size']} pixels, batches of {listed['batch']}."
    )
    again = points.merge(whole_networks("repeated.csv.gz"), on=list(KEYS), suffixes=("", "_again"))
    apart = {
        phase: absolute_percentage_errors(again[name].to_numpy(), again[f"{name}_again"].to_numpy()).mean()
        for phase, name in zip(PHASES, TIMES, strict=True)
    }
    yield ""
    yield (
        f"{len(again)} of them measured again differ by "
        f"{', '.join(f'{one:.1f} % ({phase})' for phase, one in apart.items())} in the mean."
    )
    answers = {
        protocol: {phase: {form: left_out(points, phase, form, protocol) for form in ON_A_CPU} for phase in PHASES}
        for protocol in ("model", "family")
    }
    for protocol, by in answers.items():
        yield ""
        yield from compared(protocol, {phase: _figures(one) for phase, one in by.items()})
    chosen = {form: answers["model"]["step"][form] for form in BOTH}
    for column, title in (("batch", "batch"), ("image_size", "image size, pixels"), ("network", "network")):
        yield ""
        yield from errors_by(chosen, column, f"step by {title}")
    if draw:
        drawn = {phase: (phase, answers["model"][phase]) for phase in ("inference", "step")}
        yield from picture("cpu", "inference and steps on a CPU", drawn)


def compared(protocol: str, rows: Mapping[str, Mapping[str, Figures]]) -> Iterator[str]:
    """The error of each requested form, and R2 in brackets."""
    forms = [form for form in FORMS if any(form in by for by in rows.values())]
    yield from markdown_table(
        (f"{LEFT_OUT[protocol]}: MAPE % (R2)", "n", *forms, "NRMSE of default"),
        [
            (
                name,
                str(by["default"].n),
                *(f"{by[form].mape:.1f} ({by[form].r2:.2f})" if form in by else "" for form in forms),
                f"{by['default'].nrmse:.3f}",
            )
            for name, by in rows.items()
        ],
    )


def picture(name: str, what: str, rows: Mapping[str, tuple[str, Mapping[str, Answers]]]) -> Iterator[str]:
    """A row of panels for each phase with its answers (Figs. 3, 5 and 7 of the paper)."""
    panels: Sequence[Sequence[Pairs]] = [
        [Pairs(f"{form}, {phase}", by[form].measured, by[form].predicted, cell_names(by[form].points)) for form in BOTH]
        for phase, by in rows.values()
    ]
    yield ""
    yield f"![Predicted against measured {what}]({CONVMETER.save_picture(step_figure(panels), name)})"


def _figures(answers: Mapping[str, Answers]) -> dict[str, Figures]:
    return {form: one.figures for form, one in answers.items()}


PARTS = {"timm": timm, "torchvision": torchvision, "cpu_phases": cpu_phases, "cpu": cpu}


if __name__ == "__main__":
    chosen = part_options(__doc__)
    publish_parts(CONVMETER, {name: lines(chosen.write) for name, lines in PARTS.items()}, chosen)
