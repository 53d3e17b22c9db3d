"""Fit the model that comes with Epochcast on public tables and our own of a CPU.

Run: python -m lab.speed.convmeter.fit_shipped [--write]
"""

from collections.abc import Iterator

import pandas as pd

from epochcast.analyzer.backends.convmeter import SHIPPED
from epochcast.analyzer.backends.convmeter.metrics import CHANNELS_LAST, PHASES, read_points
from epochcast.analyzer.backends.convmeter.predictor import RECIPES, ConvNetPredictor
from epochcast.regressor import load_catalog
from lab.speed.convmeter.public_tables import OWN, points_of
from lab.speed.page import options

AMP = "amp-fp16"  # autocast as timm's benchmark takes it
TIMM = {
    "infer-amp-nchw-pt240-cu124-rtx3090": ("RTX 3090", AMP, "inference", "PyTorch 2.4, channels first, mostly batch 1024"),
    "infer-amp-nhwc-pt240-cu124-rtx3090": (
        "RTX 3090",
        AMP + CHANNELS_LAST,
        "inference",
        "PyTorch 2.4, channels last, mostly batch 1024",
    ),
    "train-amp-nchw-pt112-cu113-rtx3090": ("RTX 3090", AMP, "step", "PyTorch 1.12, channels first, a batch per network"),
    "train-amp-nhwc-pt112-cu113-rtx3090": (
        "RTX 3090",
        AMP + CHANNELS_LAST,
        "step",
        "PyTorch 1.12, channels last, a batch per network",
    ),
    "infer-fp32-nchw-pt240-cpu-i9_10940x-dynamo": (
        "i9-10940X",
        "fp32",
        "inference",
        "PyTorch 2.4, compiled (dynamo), channels first, batch 1",
    ),
}
"""Device, precision, phase and what it was measured with; the newest PyTorch of each."""

TORCHVISION = "pytorch-gpu-benchmark's table, channels first, batch 12; its step has no update; several GPUs by DataParallel"
OWN_SOURCE = "Epochcast's own table (data/convmeter_cpu), one thread, channels first"


def tables(*, convnets_only: bool) -> Iterator[tuple[pd.DataFrame, dict[tuple[str, str, str], str]]]:
    """Points, and their sources."""
    for table, (device, precision, phase, source) in TIMM.items():
        points = points_of(f"benchmark-{table}.csv", convnets_only=convnets_only).assign(device=device, precision=precision)
        yield points, {(device, precision, phase): f"timm's table, {source}"}
    points = points_of("torchvision_step_times.csv.gz")
    points = points[points["precision"] != "fp64"]
    resolve = load_catalog().resolve
    points = points.assign(device=[resolve(name).name for name in points["device"]])
    yield points, _everywhere(points, TORCHVISION)
    points = read_points(OWN / "points.csv.gz")
    yield points, _everywhere(points, OWN_SOURCE)


def _everywhere(points: pd.DataFrame, source: str) -> dict[tuple[str, str, str], str]:
    cells = set(zip(points["device"], points["precision"], strict=True))
    return {(device, precision, phase): source for device, precision in cells for phase in PHASES}


def main() -> None:
    """Print what was fitted; --write puts it into the package."""
    parser = options(__doc__, page=False)
    parser.add_argument("--write", action="store_true", help="put it into the package")
    write = parser.parse_args().write
    predictor = ConvNetPredictor([], [])
    for recipe in RECIPES:  # the paper's is for ConvNets; transformers help the other with networks between the two
        read = list(tables(convnets_only=recipe == "paper"))
        sources = {key: source for _, own in read for key, source in own.items()}
        own = ConvNetPredictor.fit(pd.concat([points for points, _ in read], ignore_index=True), sources, [recipe])
        predictor.cells += own.cells
        predictor.forms += own.forms
    for cell in predictor.cells:
        for phase, fit in cell.fits.items():
            where = f"{cell.recipe:7} {cell.device:19} {cell.precision:13} {phase:9}"
            print(f"{where} {fit.points:4} points, {fit.mape:.1f} %, x {fit.factor:.2f}", end="")
            print("" if fit.attention_factor is None else f"; {fit.attention_mape:.1f} %, x {fit.attention_factor:.2f}")
    if write:
        predictor.save(SHIPPED)
        print(f"{sum(file.stat().st_size for file in SHIPPED.iterdir()) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
